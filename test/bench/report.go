package main

import (
	"fmt"
	"slices"
	"strings"

	"vmop/test/measure"
)

// report contains the results of one run.
type report struct {
	Machine    machine  `json:"machine"`
	Rounds     int      `json:"rounds"`
	LoadBefore string   `json:"loadBefore"`
	LoadAfter  string   `json:"loadAfter"`
	Results    []result `json:"results"`
}

// result is one line of the table.
type result struct {
	Section string    `json:"section"`
	Name    string    `json:"name"`
	Unit    string    `json:"unit"`
	Samples []float64 `json:"samples,omitempty"`
	// Ratio is the median of the ratios to the peer RatioTo, or 0 without a peer.
	Ratio   float64 `json:"ratio,omitempty"`
	RatioTo string  `json:"ratioTo,omitempty"`
	// Goal is the promised maximum of the median, GoalRatio of Ratio.
	Goal      float64 `json:"goal,omitempty"`
	GoalRatio float64 `json:"goalRatio,omitempty"`
	// Skipped is the reason why samples are missing.
	Skipped string `json:"skipped,omitempty"`
}

// singleResult returns the result of a single measurement.
func singleResult(name, unit string, number float64) result {
	return result{Name: name, Unit: unit, Samples: []float64{number}}
}

// withGoal returns the results after setting a goal for the median of one of them.
func withGoal(results []result, name string, goal, ratio float64) []result {
	for i := range results {
		if results[i].Name == name {
			results[i].Goal, results[i].GoalRatio = goal, ratio
		}
	}
	return results
}

// verdictText reports whether the goals are met. It returns "" without goals.
func (r result) verdictText() string {
	switch {
	case r.Skipped != "" || r.Goal == 0 && r.GoalRatio == 0:
		return ""
	case r.Goal > 0 && medianOf(r.Samples) > r.Goal, r.GoalRatio > 0 && r.Ratio > r.GoalRatio:
		return "missed"
	}
	return "met"
}

func (r result) goalText() string {
	switch {
	case r.GoalRatio > 0:
		return fmt.Sprintf("<= %.2f x", r.GoalRatio)
	case r.Goal > 0:
		return "<= " + threeDigits(r.Goal) + " " + r.Unit
	}
	return ""
}

// threeDigits formats a number with three digits, the best precision that rounds agree on.
func threeDigits(n float64) string {
	switch {
	case n >= 100 || n == float64(int(n)):
		return fmt.Sprintf("%.0f", n)
	case n >= 10:
		return fmt.Sprintf("%.1f", n)
	}
	return fmt.Sprintf("%.2f", n)
}

// markdownTable returns the report as Markdown.
func (r report) markdownTable() string {
	var b strings.Builder
	b.WriteString(r.Machine.String())
	fmt.Fprintf(&b, "load      %s before, %s after; %d rounds\n\n", r.LoadBefore, r.LoadAfter, r.Rounds)
	lines := [][]string{
		{"", "median", "least", "ratio", "to", "goal", ""},
		{"---", "---:", "---:", "---:", "---", "---", "---"},
	}
	line := func(cells ...string) { lines = append(lines, cells) }
	title := ""
	for _, res := range r.Results {
		if res.Section != title {
			title = res.Section
			line("**"+title+"**", "", "", "", "", "", "")
		}
		if res.Skipped != "" {
			line(res.Name, "skipped: "+res.Skipped, "", "", "", "", "")
			continue
		}
		ratio := ""
		if res.Ratio != 0 {
			ratio = fmt.Sprintf("%.2f x", res.Ratio)
		}
		least := ""
		if len(res.Samples) > 1 {
			least = threeDigits(slices.Min(res.Samples))
		}
		line(res.Name, threeDigits(medianOf(res.Samples))+" "+res.Unit, least, ratio, res.RatioTo, res.goalText(),
			res.verdictText())
	}
	measure.Table(&b, lines)
	return b.String()
}
