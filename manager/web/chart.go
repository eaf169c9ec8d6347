package web

import (
	"fmt"
	"html/template"
	"strings"
	"time"
)

// chartView is a drawing with its title.
type chartView struct {
	Title   string
	Drawing template.HTML
}

// charts draws the CPUs and RAM in use over the last hour and the last day.
func (v visit) charts() []chartView {
	now := v.s.opts.Now()
	var list []chartView
	for _, span := range []struct {
		key string
		d   time.Duration
	}{{"totals.hour", time.Hour}, {"totals.day", seriesLength}} {
		points := v.s.series.since(now.Add(-span.d))
		if len(points) < 2 {
			continue
		}
		cpus := func(p point) float64 { return float64(p.cpus) }
		ram := func(p point) float64 { return float64(p.ram) }
		top := "" // of the scale
		for _, p := range points {
			top = v.T("totals.scale", max(p.cpus, 1), v.bytes(max(p.ram, 1)))
		}
		list = append(list, chartView{v.T(span.key), draw(points, now.Add(-span.d), now, top, cpus, ram)})
	}
	return list
}

// Size of a chart in the units of its drawing.
const chartWidth, chartHeight = 240, 48

// draw returns lines of values over time, each with a scale of its own that begins at 0. The
// values stay until the next point: steps, no slopes.
func draw(points []point, from, to time.Time, label string, values ...func(point) float64) template.HTML {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="chart" viewBox="0 0 %d %d" preserveAspectRatio="none" role="img" aria-label="%s">`,
		chartWidth, chartHeight, template.HTMLEscapeString(label))
	x := func(at time.Time) float64 { return float64(chartWidth) * float64(at.Sub(from)) / float64(to.Sub(from)) }
	for i, value := range values {
		top := 1.0
		for _, p := range points {
			top = max(top, value(p))
		}
		y := func(p point) float64 { return 2 + (chartHeight-4)*(1-value(p)/top) }
		fmt.Fprintf(&b, `<path class="line%d" d="M%.1f %.1f`, i, x(points[0].at), y(points[0]))
		for _, p := range points[1:] {
			fmt.Fprintf(&b, "H%.1fV%.1f", x(p.at), y(p))
		}
		fmt.Fprintf(&b, `H%d"/>`, chartWidth)
	}
	b.WriteString("</svg>")
	return template.HTML(b.String())
}
