package web

import (
	"encoding/json"
	"html/template"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"time"

	"vmop/manager/access"
	"vmop/manager/web/fleet"
)

// usageView is the resource usage of a VM over the last hour. The VM's page loads it separately, because the runner
// must answer first.
type usageView struct {
	words
	Source string // address from which a script reloads it
	Charts []usageChart
	// Up reports that charts will follow, and need space.
	Up bool
	// Waiting is why there are no charts; "" if there are some. Soon reports that it is worth looking again soon.
	Waiting string
	Soon    bool
	// Header and Table are some of the values as a table.
	Header []string
	Table  []usageRow
}

// A usageRow contains a text for each chart.
type usageRow struct {
	At     time.Time
	Values []string
}

// A usageChart has one or two lines and their current values.
type usageChart struct {
	Title  string
	Values []usageValue
	// Drawing is empty if Note explains why there is none.
	Drawing template.HTML
	Note    string
	// Top and Half are values on the axis, and From and To the ends of the time.
	Top, Half, From, To string
	// Points is JSON for the script that shows the values under the pointer: a list of [part of the width, Unix time,
	// text].
	Points string
}

// A usageValue is the last value of a line. Class is the class of the line.
type usageValue struct{ Class, Text string }

// newUsageView returns the view of a VM before any data is loaded.
func (v visit) newUsageView(vm *fleet.VM) usageView {
	return usageView{
		words: v.words, Source: "/vms/" + url.PathEscape(vm.Name) + "/usage", Up: vm.State.Up(),
		Waiting: v.T("usage.waiting"), Soon: vm.State.Changing(),
	}
}

// getUsage answers with this part of the page only.
func (s *Server) getUsage(w http.ResponseWriter, r *http.Request) error {
	v := s.visitOf(r)
	vm, err := v.requestedVM(r, access.View)
	if err != nil {
		return err
	}
	view := v.newUsageView(vm)
	if vm.State.Up() {
		samples, err := s.opts.Fleet.Usage(r.Context(), vm.Name)
		if err != nil {
			return err
		}
		view.drawSamples(samples, s.opts.Now())
		view.Soon = len(samples) < soonSamples
	}
	return s.showPage(w, http.StatusOK, "vmusage", view)
}

// soonSamples is how many samples a page loads in short intervals.
const soonSamples = 12

// least is the shortest time that a chart spans.
const least = 5 * time.Minute

// tableRows is the most rows of the table.
const tableRows = 12

// drawSamples draws the samples.
func (u *usageView) drawSamples(samples []fleet.Sample, now time.Time) {
	if len(samples) < 2 {
		u.Waiting = u.T("usage.soon")
		return
	}
	u.Waiting = ""
	d := drawing{u: u, now: now, from: now.Add(-time.Hour), texts: map[time.Time][]string{}}
	if first := samples[0].At; first.After(d.from) {
		d.from = first
		if latest := now.Add(-least); first.After(latest) {
			d.from = latest
		}
	}
	at := func(s fleet.Sample) time.Time { return s.At }
	memory := curveOf(samples, at, func(s fleet.Sample) float64 { return float64(s.Memory) })
	cpu := growthRates(samples, func(s fleet.Sample) float64 { return s.CPUSeconds })
	read := growthRates(samples, func(s fleet.Sample) float64 { return float64(s.Read) })
	written := growthRates(samples, func(s fleet.Sample) float64 { return float64(s.Written) })
	cpus := func(v float64) string {
		if v == 1 {
			return u.T("usage.onecpu")
		}
		return u.T("usage.cpus", u.formatDecimal(v))
	}
	bytes := func(v float64) string { return u.formatBytes(int64(v)) }
	perSecond := func(v float64) string { return u.T("usage.persecond", u.formatBytes(int64(v))) }
	d.addChart("usage.cpu", cpus, niceDecimal, nil, cpu)
	d.addChart("usage.memory", bytes, niceBytes, nil, memory)
	d.addChart("usage.disk", perSecond, niceBytes, []string{"usage.read", "usage.written"}, read, written)
	if samples[len(samples)-1].Received == nil {
		u.Charts = append(u.Charts, usageChart{Title: u.T("usage.network"), Note: u.T("usage.nonetwork")})
	} else {
		received := growthRates(samples, func(s fleet.Sample) float64 { return floatOf(s.Received) })
		sent := growthRates(samples, func(s fleet.Sample) float64 { return floatOf(s.Sent) })
		d.addChart("usage.network", perSecond, niceBytes, []string{"usage.received", "usage.sent"}, received, sent)
	}
	d.addTable()
}

// drawing is what the charts of a VM have in common.
type drawing struct {
	u         *usageView
	from, now time.Time
	// texts are the values of the charts by time, in the order of the charts.
	texts map[time.Time][]string
}

// addChart adds a chart. All its lines have the same scale, up to nice of the largest value. names are the keys of the
// lines' texts; nil for a single line.
func (d *drawing) addChart(key string, format func(float64) string, nice func(float64) float64, names []string,
	curves ...curve,
) {
	u, top := d.u, 0.0
	named := func(i int, value float64) string {
		if names == nil {
			return format(value)
		}
		return u.T(names[i], format(value))
	}
	c := usageChart{
		Title: u.T(key), From: u.T("usage.ago", max(1, int(d.now.Sub(d.from).Round(time.Minute)/time.Minute))),
		To: u.T("usage.now"),
	}
	label := c.Title
	for i, one := range curves {
		text := named(i, lastValue(one))
		c.Values = append(c.Values, usageValue{"line" + string(rune('0'+i)), text})
		label += ", " + text
		top = max(top, one.top)
	}
	top = nice(top)
	for i := range curves {
		curves[i].top = top
	}
	c.Top, c.Half = format(top), format(top/2)
	c.Points = d.pointsOf(len(u.Header), named, curves)
	c.Drawing = drawCurves(d.from, d.now, label, curves...)
	u.Charts, u.Header = append(u.Charts, c), append(u.Header, c.Title)
}

// pointsOf returns the values of a chart for the script, and adds them to the texts. place is the number of the chart.
func (d *drawing) pointsOf(place int, named func(int, float64) string, curves []curve) string {
	points := [][3]any{}
	for n, dot := range curves[0].dots {
		text := named(0, dot.value)
		for i, other := range curves[1:] {
			if n < len(other.dots) {
				text += ", " + named(i+1, other.dots[n].value)
			}
		}
		part := float64(dot.at.Sub(d.from)) / float64(d.now.Sub(d.from))
		points = append(points, [3]any{math.Round(part*1000) / 1000, dot.at.Unix(), text})
		if known := d.texts[dot.at]; len(known) == place {
			d.texts[dot.at] = append(known, text)
		}
	}
	text, _ := json.Marshal(points) // numbers and strings always marshal
	return string(text)
}

// addTable adds the table with the values of some times, the latest first.
func (d *drawing) addTable() {
	times := slices.SortedFunc(maps.Keys(d.texts), func(a, b time.Time) int { return b.Compare(a) })
	times = slices.DeleteFunc(times, func(at time.Time) bool { return len(d.texts[at]) != len(d.u.Header) })
	step := (len(times) + tableRows - 1) / tableRows
	for i := 0; i < len(times); i += step {
		d.u.Table = append(d.u.Table, usageRow{times[i], d.texts[times[i]]})
	}
	d.u.Header = append([]string{d.u.T("usage.time")}, d.u.Header...)
}

// niceDecimal returns the smallest of 1, 2, 5, 10, 20 … and 0.1, 0.2, 0.5 … that is at least a value.
func niceDecimal(value float64) float64 {
	if value <= 0.1 {
		return 0.1
	}
	base := math.Pow(10, math.Floor(math.Log10(value)))
	for _, times := range []float64{1, 2, 5} {
		if value <= base*times {
			return base * times
		}
	}
	return base * 10
}

// niceBytes returns the smallest power of two, and at least a KiB, that is at least a value.
func niceBytes(value float64) float64 { return math.Exp2(math.Ceil(math.Log2(max(value, 1<<10)))) }

// growthRates returns the growth of a counter per second. It skips resets of the counter.
func growthRates(samples []fleet.Sample, counter func(fleet.Sample) float64) curve {
	var c curve
	for i := 1; i < len(samples); i++ {
		before, after := samples[i-1], samples[i]
		seconds, more := after.At.Sub(before.At).Seconds(), counter(after)-counter(before)
		if seconds <= 0 || more < 0 {
			continue
		}
		c.dots = append(c.dots, dot{before.At, more / seconds})
		c.top = max(c.top, more/seconds)
	}
	return c
}

func lastValue(c curve) float64 {
	if len(c.dots) == 0 {
		return 0
	}
	return c.dots[len(c.dots)-1].value
}

func floatOf(n *int64) float64 {
	if n == nil {
		return 0
	}
	return float64(*n)
}
