package main

import "testing"

func TestFewSamplesNeverLookBetterThanTheyWere(t *testing.T) {
	upTo := func(n int) (samples []float64) {
		for i := range n {
			samples = append(samples, float64(n-i)) // from the largest to the smallest
		}
		return samples
	}
	for _, c := range []struct {
		samples []float64
		want    summary
	}{
		{nil, summary{}},
		{[]float64{7}, summary{1, 7, 7, 7}},
		{[]float64{9, 1}, summary{2, 1, 5, 9}},
		{[]float64{3, 1, 2}, summary{3, 1, 2, 3}},
		{upTo(10), summary{10, 1, 5.5, 10}},
		{upTo(19), summary{19, 1, 10, 19}},
		{upTo(20), summary{20, 1, 10.5, 19}},
		{upTo(100), summary{100, 1, 50.5, 95}},
		{upTo(1000), summary{1000, 1, 500.5, 950}},
	} {
		first := append([]float64(nil), c.samples...)
		if got := summarize(c.samples); got != c.want {
			t.Errorf("%d samples: %+v, want %+v", len(c.samples), got, c.want)
		}
		for i := range first {
			if first[i] != c.samples[i] {
				t.Fatal("the samples were put in another order")
			}
		}
	}
}

func TestFiguresHaveThreeDigitsThatCount(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.004: "0.00", 0.5: "0.50", 1: "1", 1.234: "1.23", 12.34: "12.3", 99.96: "100", 123.4: "123", 52344.6: "52345",
	} {
		if got := figure(v); got != want {
			t.Errorf("%v is %q, want %q", v, got, want)
		}
	}
}
