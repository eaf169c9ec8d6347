package web

import (
	"html/template"
	"net/http"
	"net/url"
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
	// Waiting reports that there is no data yet.
	Waiting bool
}

// A usageChart has one or two lines and their current values.
type usageChart struct {
	Title  string
	Values []usageValue
	// Drawing is empty if Note explains why there is none.
	Drawing template.HTML
	Note    string
}

// A usageValue is the last value of a line. Class is the class of the line.
type usageValue struct{ Class, Text string }

// newUsageView returns the view of a VM before any data is loaded.
func (v visit) newUsageView(vm *fleet.VM) usageView {
	return usageView{
		words: v.words, Source: "/vms/" + url.PathEscape(vm.Name) + "/usage", Up: vm.State.Up(), Waiting: true,
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
	}
	return s.showPage(w, http.StatusOK, "vmusage", view)
}

// drawSamples draws the samples.
func (u *usageView) drawSamples(samples []fleet.Sample, now time.Time) {
	if len(samples) < 2 {
		return
	}
	u.Waiting = false
	at := func(s fleet.Sample) time.Time { return s.At }
	memory := curveOf(samples, at, func(s fleet.Sample) float64 { return float64(s.Memory) })
	cpu := growthRates(samples, func(s fleet.Sample) float64 { return s.CPUSeconds })
	read := growthRates(samples, func(s fleet.Sample) float64 { return float64(s.Read) })
	written := growthRates(samples, func(s fleet.Sample) float64 { return float64(s.Written) })
	perSecond := func(c curve) string { return u.T("usage.persecond", u.formatBytes(int64(lastValue(c)))) }
	u.addChart(now, "usage.cpu", []string{u.T("usage.cpus", u.formatDecimal(lastValue(cpu)))}, cpu)
	u.addChart(now, "usage.memory", []string{u.formatBytes(int64(lastValue(memory)))}, memory)
	u.addChart(now, "usage.disk", []string{
		u.T("usage.read", perSecond(read)),
		u.T("usage.written", perSecond(written)),
	},
		read, written)
	if samples[len(samples)-1].Received == nil {
		u.Charts = append(u.Charts, usageChart{Title: u.T("usage.network"), Note: u.T("usage.nonetwork")})
		return
	}
	received := growthRates(samples, func(s fleet.Sample) float64 { return floatOf(s.Received) })
	sent := growthRates(samples, func(s fleet.Sample) float64 { return floatOf(s.Sent) })
	u.addChart(now, "usage.network",
		[]string{u.T("usage.received", perSecond(received)), u.T("usage.sent", perSecond(sent))}, received, sent)
}

// addChart adds a chart over an hour. All its lines have the same scale.
func (u *usageView) addChart(now time.Time, key string, values []string, curves ...curve) {
	c := usageChart{Title: u.T(key)}
	label, top := c.Title, 0.0
	for i, text := range values {
		c.Values = append(c.Values, usageValue{"line" + string(rune('0'+i)), text})
		label += ", " + text
		top = max(top, curves[i].top)
	}
	for i := range curves {
		curves[i].top = top
	}
	c.Drawing = drawCurves(now.Add(-time.Hour), now, label, curves...)
	u.Charts = append(u.Charts, c)
}

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
