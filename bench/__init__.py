"""The budgets of the design, measured as ratios inside one run; ``make bench`` runs all of them."""
