package main

import (
	"fmt"
	"runtime"
	"slices"
	"strings"

	"vmop/test/measure"
)

// report contains the results of one run.
type report struct {
	Date       string  `json:"date"`
	LoadBefore string  `json:"loadBefore"`
	LoadAfter  string  `json:"loadAfter"`
	Rounds     []round `json:"rounds"` // the first is without VMs
	Single     single  `json:"single"`
	Idle       quiet   `json:"idle"`
	Crowded    crowded `json:"crowded"`
}

// round contains the results for one number of VMs. Times are in seconds, memory is resident and in bytes.
type round struct {
	VMs   int `json:"vms"`
	Added int `json:"added"`
	// Created is the time until the last of the added VMs was created, Running until the last had booted.
	Created float64 `json:"created"`
	Running float64 `json:"running"`
	// Calls are the manager's requests until it was quiet.
	Calls calls `json:"calls"`
	// Reconciled is the number of reconciliations of VMs. Median and P99 are quantiles of their duration.
	Reconciled float64 `json:"reconciled"`
	Median     float64 `json:"median"`
	P99        float64 `json:"p99"`
	// Processor is the manager's CPU time, Servers the CPU time of API server, etcd and controllers.
	Processor float64 `json:"processor"`
	Servers   float64 `json:"servers"`
	// Memory is the memory of the manager that has created all VMs.
	Memory int `json:"memory"`
	// Synced is the time until a restarted manager has filled its caches, Looked until it has reconciled all VMs.
	// AfterRestart contains its requests, Restarted its memory.
	Synced       float64 `json:"synced"`
	Looked       float64 `json:"looked"`
	AfterRestart calls   `json:"afterRestart"`
	// Idle and IdleP99 are quantiles of the duration of these reconciliations, which have no work to do.
	Idle      float64 `json:"idle"`
	IdleP99   float64 `json:"idleP99"`
	Restarted int     `json:"restarted"`
}

// quiet is a time without changes.
type quiet struct {
	Seconds   float64 `json:"seconds"`
	Calls     calls   `json:"calls"`
	Processor float64 `json:"processor"`
}

// Goals of test/bench/RESULTS.md.
const (
	mostMemory   = 10 << 10 // bytes per VM
	leastFit     = 0.99     // coefficient of determination of the memory line
	mostWrites   = 8        // per VM, from its creation until it has booted
	leastCreates = 50       // per second
	mostP99      = 0.1      // seconds
	mostSync     = 5        // seconds
	mostCrowded  = 1        // seconds
	mostOperated = 0.3      // seconds
)

// fitMemory returns the bytes per VM, and how well a line fits. It ignores the round without VMs, in which the manager
// has not loaded most of its code.
func (r report) fitMemory(memory func(round) int) (slope, fit float64) {
	rounds := r.Rounds
	if len(rounds) > 2 {
		rounds = rounds[1:]
	}
	var x, y []float64
	for _, round := range rounds {
		x, y = append(x, float64(round.VMs)), append(y, float64(memory(round)))
	}
	return fitLine(x, y)
}

// row is a line of the table: a number for each round, and a goal.
type row struct {
	name   string
	figure func(round) string
	goal   string
	met    func(report) bool // nil without a goal
}

func reportRows() []row {
	last := func(r report) round { return r.Rounds[len(r.Rounds)-1] }
	every := func(is func(round) bool) func(report) bool {
		return func(r report) bool { return !slices.ContainsFunc(r.Rounds[1:], func(x round) bool { return !is(x) }) }
	}
	perVM := func(n int, r round) float64 { return float64(n) / float64(r.Added) }
	return []row{
		{"memory after a restart, MiB", func(r round) string {
			return formatMiB(r.Restarted)
		}, "<= 10 KiB/VM", func(r report) bool { return isMet(r.fitMemory(restartedMemory)) }},
		{"memory after creating them, MiB", func(r round) string {
			return formatMiB(r.Memory)
		}, "<= 10 KiB/VM", func(r report) bool { return isMet(r.fitMemory(memoryOf)) }},
		{
			"writes per VM, created to booted", func(r round) string {
				return fmt.Sprintf("%.2f", perVM(r.Calls.countWrites(), r))
			}, fmt.Sprintf("<= %d", mostWrites),
			every(func(r round) bool { return perVM(r.Calls.countWrites(), r) <= mostWrites }),
		},
		{"reads per VM, created to booted", func(r round) string {
			return fmt.Sprintf("%.2f", perVM(r.Calls.countReads(), r))
		}, "0", every(func(r round) bool { return r.Calls.countReads() == 0 })},
		{"writes on a restart", func(r round) string {
			return fmt.Sprint(r.AfterRestart.countWrites())
		}, "0", every(func(r round) bool { return r.AfterRestart.countWrites() == 0 })},
		{"VMs created per second", func(r round) string {
			return fmt.Sprintf("%.0f", float64(r.Added)/r.Created)
		}, "", nil},
		{
			"VMs booted per second", func(r round) string {
				return fmt.Sprintf("%.0f", float64(r.Added)/r.Running)
			}, fmt.Sprintf(">= %d", leastCreates),
			func(r report) bool { return float64(last(r).Added)/last(r).Running >= leastCreates },
		},
		{"reconciliations of each VM", func(r round) string {
			return fmt.Sprintf("%.1f", r.Reconciled/float64(r.Added))
		}, "", nil},
		{"reconciliation at that speed, median, ms", func(r round) string { return formatMs(r.Median) }, "", nil},
		{"reconciliation at that speed, p99, ms", func(r round) string { return formatMs(r.P99) }, "", nil},
		{"reconciliation with nothing to do, median, ms", func(r round) string { return formatMs(r.Idle) }, "", nil},
		{"reconciliation with nothing to do, p99, ms", func(r round) string {
			return formatMs(r.IdleP99)
		}, "<= 100", every(func(r round) bool { return r.IdleP99 <= mostP99 })},
		{"processor time per VM of all servers, ms", func(r round) string {
			return fmt.Sprintf("%.0f", 1000*r.Servers/float64(r.Added))
		}, "", nil},
		{"processor time per VM, ms", func(r round) string {
			return fmt.Sprintf("%.1f", 1000*r.Processor/float64(r.Added))
		}, "", nil},
		{"restart until synced, s", func(r round) string {
			return fmt.Sprintf("%.1f", r.Synced)
		}, "<= 5", func(r report) bool { return last(r).Synced <= mostSync }},
		{"restart until all are reconciled, s", func(r round) string { return fmt.Sprintf("%.1f", r.Looked) }, "", nil},
	}
}

func restartedMemory(r round) int { return r.Restarted }
func memoryOf(r round) int        { return r.Memory }

func isMet(slope, fit float64) bool { return slope <= mostMemory && fit >= leastFit }

func formatMiB(bytes int) string      { return fmt.Sprintf("%.1f", float64(bytes)/(1<<20)) }
func formatMs(seconds float64) string { return fmt.Sprintf("%.0f", 1000*seconds) }

// markdownTable returns the report as Markdown.
func (r report) markdownTable() string {
	var b strings.Builder
	fmt.Fprintf(&b, "date     %s\nmachine  %d processors, %s\nload     %s before, %s after\n\n", r.Date,
		runtime.NumCPU(), runtime.Version(), r.LoadBefore, r.LoadAfter)
	head, rule := []string{"VMs"}, []string{"---"}
	for _, round := range r.Rounds {
		head, rule = append(head, fmt.Sprint(round.VMs)), append(rule, "---:")
	}
	lines := [][]string{append(head, "goal", ""), append(rule, "---", "---")}
	for _, row := range reportRows() {
		words := []string{row.name}
		for _, round := range r.Rounds {
			if round.VMs == 0 && !strings.HasPrefix(row.name, "memory") {
				words = append(words, "")
				continue
			}
			words = append(words, row.figure(round))
		}
		verdict := ""
		if row.met != nil {
			verdict = "missed"
			if row.met(r) {
				verdict = "met"
			}
		}
		lines = append(lines, append(words, row.goal, verdict))
	}
	measure.Table(&b, lines)
	slope, fit := r.fitMemory(restartedMemory)
	fmt.Fprintf(&b, "\nmemory after a restart: %.1f KiB per VM, R² %.4f", slope/1024, fit)
	slope, fit = r.fitMemory(memoryOf)
	fmt.Fprintf(&b, "\nmemory after creating them: %.1f KiB per VM, R² %.4f", slope/1024, fit)
	fmt.Fprintf(&b, "\nidle for %.0f s: %d writes, %d reads, %.0f ms of processor time, and %d renewals of the lease",
		r.Idle.Seconds, r.Idle.Calls.countWrites(), r.Idle.Calls.countReads(),
		1000*r.Idle.Processor, r.Idle.Calls.countRenewals())
	fmt.Fprint(&b, r.Single.markdownTable(), r.Crowded.markdownTable())
	last := r.Rounds[len(r.Rounds)-1]
	fmt.Fprintf(&b, "\nthe last %d VMs: %s\nthe last restart: %s\n", last.Added, last.Calls, last.AfterRestart)
	return b.String()
}

// markdownTable returns the results for single VMs as Markdown.
func (s single) markdownTable() string {
	reconciled, operated := "missed", "missed"
	if s.ReconciledP99 <= mostP99 {
		reconciled = "met"
	}
	if s.OperatedP95 <= mostOperated {
		operated = "met"
	}
	var b strings.Builder
	b.WriteString("\n\n")
	measure.Table(&b, [][]string{
		{fmt.Sprintf("Every %s, with %d VMs", pace, s.VMs), "median", "p99", "goal", ""},
		{"---", "---:", "---:", "---", "---"},
		{"reconciliation, ms", formatMs(s.Reconciled), formatMs(s.ReconciledP99), "p99 <= 100", reconciled},
		{"a VM is created, until it has booted, ms", formatMs(s.Booted), formatMs(s.BootedP99), "", ""},
		{"a running VM is changed, until its pod has it, ms", formatMs(s.Edited), formatMs(s.EditedP99), "", ""},
		{
			"a reset is asked for, until the pod has it, ms (p95)", formatMs(s.Operated), formatMs(s.OperatedP95),
			"p95 <= 300", operated,
		},
	})
	return b.String()
}

// markdownTable returns the results for changes during the creation of many VMs as Markdown.
func (c crowded) markdownTable() string {
	verdict := "missed"
	if c.P99 <= mostCrowded {
		verdict = "met"
	}
	var b strings.Builder
	b.WriteString("\n")
	measure.Table(&b, [][]string{
		{
			fmt.Sprintf("Every %s, while %d users create %d VMs", pace, importers, c.VMs),
			"median", "p99", "most", "goal", "",
		},
		{"---", "---:", "---:", "---:", "---", "---"},
		{
			"a running VM is labelled, until its pod has it, ms", formatMs(c.Changed), formatMs(c.P99),
			formatMs(c.Most),
			fmt.Sprintf("p99 <= %d", 1000*mostCrowded), verdict,
		},
		{
			"of this, the API server's answer to the user, ms",
			formatMs(c.Answered), formatMs(c.AnsweredP99), formatMs(c.AnsweredMost), "", "",
		},
		{"all VMs: reconciliation, ms", formatMs(c.Reconciled), formatMs(c.ReconciledP99), "", "", ""},
	})
	fmt.Fprintf(&b, "\nthe %d VMs were created in %.1f s, and the manager had done all for them after %.1f s "+
		"(%d changes);\nmeanwhile it computed for %.1f s, and the servers for %.1f s\n",
		c.VMs, c.Created, c.Settled, c.Changes, c.Processor, c.Servers)
	return b.String()
}
