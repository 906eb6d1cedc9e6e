package session

import (
	"time"

	"talaria/api"
	"talaria/store"
)

// spending is what the session may spend in total, and what it has spent. Guarded by Session.mu.
type spending struct {
	budgets   api.Budgets
	spent     store.Spent
	createdAt int64 // of the session, in milliseconds; immutable
}

// left returns the session's budgets, and how much of each is left. The caller holds mu.
func (b *spending) left() api.BudgetsLeft {
	age := time.Since(time.UnixMilli(b.createdAt)).Seconds()
	return api.BudgetsLeft{
		Executions: left(b.budgets.Executions, b.spent.Executions),
		CPUS:       left(b.budgets.CPUS, float64(b.spent.CPUMS)/1000),
		ToolCalls:  left(b.budgets.ToolCalls, b.spent.ToolCalls),
		LifetimeS:  left(b.budgets.LifetimeS, age),
	}
}

func left[T int64 | float64](budget *T, spent T) *api.BudgetLeft[T] {
	if budget == nil {
		return nil
	}
	return &api.BudgetLeft[T]{Limit: *budget, Left: max(0, *budget-spent)}
}

// takeExecution counts another execution, unless a budget for it is used up. The caller holds mu.
func (b *spending) takeExecution() error {
	l := b.left()
	switch {
	case l.LifetimeS != nil && l.LifetimeS.Left == 0:
		return exhausted("lifetime_s", "the session is older than %v s", l.LifetimeS.Limit)
	case l.Executions != nil && l.Executions.Left == 0:
		return exhausted("executions", "the session has used up its %d executions", l.Executions.Limit)
	case l.CPUS != nil && l.CPUS.Left == 0:
		return exhausted("cpu_s", "the session has used up its %v s of CPU time", l.CPUS.Limit)
	}
	b.spent.Executions++
	return nil
}

func exhausted(name, format string, args ...any) error {
	return api.Errorf(api.CodeBudgetExhausted, "budgets.%s: "+format+"; raise the budget with PATCH, or create a session",
		append([]any{name}, args...)...)
}
