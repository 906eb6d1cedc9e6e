package settings

import (
	"reflect"

	"talaria/api"
)

// checkBudgets validates the requested budgets, and puts them into b.
func checkBudgets(r *api.BudgetsRequest, b *api.Budgets) error {
	if r == nil {
		return nil
	}
	return firstError(
		budget("executions", r.Executions, &b.Executions),
		budget("cpu_s", r.CPUS, &b.CPUS),
		budget("tool_calls", r.ToolCalls, &b.ToolCalls),
		budget("lifetime_s", r.LifetimeS, &b.LifetimeS),
	)
}

func budget[T int64 | float64](name string, asked *T, into **T) error {
	switch {
	case asked == nil:
	case *asked == 0:
		*into = nil
	case !(*asked > 0 && *asked <= MaxSeconds):
		return api.Invalid("budgets.%s must be between 0 (no budget) and %d", name, MaxSeconds)
	default:
		*into = asked
	}
	return nil
}

// hasBudgets reports whether a session with the budgets has the requested ones.
func hasBudgets(has api.Budgets, r *api.BudgetsRequest) bool {
	asked := has
	return checkBudgets(r, &asked) == nil && reflect.DeepEqual(asked, has)
}
