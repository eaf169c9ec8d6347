package web

import (
	"fmt"
	"html/template"
	"strings"
	"time"
)

// chartView is a chart with its title.
type chartView struct {
	Title   string
	Drawing template.HTML
}

// drawCharts draws the CPUs and RAM in use over the last hour and the last day.
func (v visit) drawCharts() []chartView {
	now := v.s.opts.Now()
	var list []chartView
	for _, span := range []struct {
		key string
		d   time.Duration
	}{{"totals.hour", time.Hour}, {"totals.day", seriesLength}} {
		points := v.s.series.pointsSince(now.Add(-span.d))
		if len(points) < 2 {
			continue
		}
		at := func(p point) time.Time { return p.at }
		cpus := curveOf(points, at, func(p point) float64 { return float64(p.cpus) })
		ram := curveOf(points, at, func(p point) float64 { return float64(p.ram) })
		top := "" // of the scale
		for _, p := range points {
			top = v.T("totals.scale", max(p.cpus, 1), v.formatBytes(max(p.ram, 1)))
		}
		list = append(list, chartView{v.T(span.key), drawCurves(now.Add(-span.d), now, top, cpus, ram)})
	}
	return list
}

// chartWidth and chartHeight are the size of a chart in drawing units.
const chartWidth, chartHeight = 240, 48

// A dot is a value that holds from a time on.
type dot struct {
	at    time.Time
	value float64
}

// A curve is a list of dots in chronological order, on a scale from 0 to top.
type curve struct {
	dots []dot
	top  float64
}

// curveOf returns a curve with its own scale.
func curveOf[T any](list []T, at func(T) time.Time, value func(T) float64) curve {
	var c curve
	for _, one := range list {
		c.dots = append(c.dots, dot{at(one), value(one)})
		c.top = max(c.top, value(one))
	}
	return c
}

// drawCurves draws curves over a time span as steps: a value holds until the next dot.
func drawCurves(from, to time.Time, label string, curves ...curve) template.HTML {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="chart" viewBox="0 0 %d %d" preserveAspectRatio="none" role="img" aria-label="%s">`,
		chartWidth, chartHeight, template.HTMLEscapeString(label))
	x := func(at time.Time) float64 { return float64(chartWidth) * float64(at.Sub(from)) / float64(to.Sub(from)) }
	for i, c := range curves {
		if len(c.dots) == 0 {
			continue
		}
		y := func(d dot) float64 { return 2 + (chartHeight-4)*(1-d.value/max(c.top, 1e-9)) }
		fmt.Fprintf(&b, `<path class="line%d" d="M%.1f %.1f`, i, x(c.dots[0].at), y(c.dots[0]))
		for _, d := range c.dots[1:] {
			fmt.Fprintf(&b, "H%.1fV%.1f", x(d.at), y(d))
		}
		fmt.Fprintf(&b, `H%d"/>`, chartWidth)
	}
	b.WriteString("</svg>")
	return template.HTML(b.String())
}
