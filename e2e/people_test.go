package e2e

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// people is a messy table and the facts about it.
type people struct {
	csv    []byte
	cities map[string]*cityTotals
	years  map[string]int
	// characters of all notes, and how many notes have a line break, a comma and a quote
	noteLength, breaks, commas, quotes int
	undated                            int
}

type cityTotals struct {
	Rows  int   `json:"rows"`
	Paid  int   `json:"paid"` // rows with an amount
	Cents int64 `json:"cents"`
}

// makePeople makes n rows; the same seed gives the same bytes.
func makePeople(seed uint64, n int) people {
	r := rand.New(rand.NewPCG(seed, 0))
	pick := func(list []string) string { return list[r.IntN(len(list))] }
	first := []string{"Åsa", "José", "Žofie", "李雷", "Ада", "Siobhán", "Müller", "😀"}
	last := []string{"Öberg", "Núñez", "Čapek", "O'Neil", "Иванова", "van der Berg", "山田"}
	cities := []string{"Århus", "Lund", "São Paulo", "東京", "Łódź", ""}
	notes := []string{"", "plain", "a, b, c", `said "yes, please"`, "line one\nline two", "tab\there",
		"\"\"", "ends with a break\n", "ünïcödé, \"with\nall\"", "n/a"}
	p := people{cities: map[string]*cityTotals{}, years: map[string]int{}}
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	_ = w.Write([]string{"id", "name", "city", "joined", "amount", "note"}) // a buffer accepts it
	for i := range n {
		city, note, joined, amount := pick(cities), pick(notes), "", ""
		day := time.Date(2015, 1, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, r.IntN(3650))
		switch k := r.IntN(10); {
		case k == 0:
			p.undated++
		case k < 5:
			joined = day.Format("2006-01-02")
		default:
			joined = day.Format("02/01/2006")
		}
		if joined != "" {
			p.years[day.Format("2006")]++
		}
		if p.cities[city] == nil {
			p.cities[city] = &cityTotals{}
		}
		totals := p.cities[city]
		totals.Rows++
		if r.IntN(8) > 0 {
			cents := r.Int64N(500_000_00)
			totals.Paid++
			totals.Cents += cents
			amount = spaced(cents)
		} else if r.IntN(2) == 0 {
			amount = "n/a"
		}
		p.noteLength += len([]rune(note))
		p.breaks += oneIf(strings.Contains(note, "\n"))
		p.commas += oneIf(strings.Contains(note, ","))
		p.quotes += oneIf(strings.Contains(note, `"`))
		_ = w.Write([]string{strconv.Itoa(i), pick(first) + " " + pick(last), city, joined, amount, note})
	}
	w.Flush()
	p.csv = out.Bytes()
	return p
}

// spaced returns an amount as people write it: " 1 234.50 ".
func spaced(cents int64) string {
	whole := strconv.FormatInt(cents/100, 10)
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + " " + whole[i:]
	}
	return fmt.Sprintf(" %s.%02d ", whole, cents%100)
}

func oneIf(b bool) int {
	if b {
		return 1
	}
	return 0
}
