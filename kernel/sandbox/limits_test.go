package sandbox_test

import (
	"testing"

	"talaria/kernel/sandbox"
)

func TestProcessesThatRunAwayFromTheirLimitsAreNotFollowedWithoutEnd(t *testing.T) {
	for generations, caught := range map[int]bool{0: true, 1: true, 10: true, 1000: false} {
		next := 0
		unlimited := func() ([]int, error) {
			if next == generations {
				return nil, nil
			}
			next++
			return []int{next}, nil
		}
		err := sandbox.LimitAll(unlimited, func(pids []int) error { return nil })
		if caught != (err == nil) {
			t.Errorf("%d generations: %v after %d", generations, err, next)
		}
	}
}
