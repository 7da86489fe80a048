"""The shared domain-fit cases, replayed against the product."""
