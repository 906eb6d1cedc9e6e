package main

import (
	"math"
	"slices"
	"strconv"
)

// summary is what a list of samples comes to.
type summary struct {
	N   int     `json:"n"`
	Min float64 `json:"min"`
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
}

// summarize takes the median as the middle sample, or the mean of the two in the middle. The 95th percentile is the
// smallest sample that 95 % are not above: with fewer than 20 samples it is the largest, so that few samples never
// look better than they were.
func summarize(samples []float64) summary {
	n := len(samples)
	if n == 0 {
		return summary{}
	}
	sorted := slices.Sorted(slices.Values(samples))
	return summary{
		N:   n,
		Min: sorted[0],
		P50: (sorted[(n-1)/2] + sorted[n/2]) / 2,
		P95: sorted[int(math.Ceil(0.95*float64(n)))-1],
	}
}

// figure is a number with three digits that count.
func figure(v float64) string {
	digits := 0
	for size := math.Abs(v); size != 0 && size < 99.95 && digits < 2; size *= 10 {
		digits++
	}
	if v == math.Trunc(v) {
		digits = 0
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
}
