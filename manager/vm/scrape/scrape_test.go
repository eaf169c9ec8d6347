package scrape

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
)

// parse reads the text format with Prometheus' library.
func parse(t testing.TB, text string) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	require.NoError(t, err, "%s", text)
	return families
}

func labels(m *dto.Metric) map[string]string {
	all := map[string]string{}
	for _, l := range m.GetLabel() {
		all[l.GetName()] = l.GetValue()
	}
	return all
}

// scrapedVMs returns the values of vmop_vm_scraped.
func scrapedVMs(t testing.TB, text string) map[string]float64 {
	t.Helper()
	all := map[string]float64{}
	for _, m := range parse(t, text)["vmop_vm_scraped"].GetMetric() {
		all[labels(m)["name"]] = m.GetGauge().GetValue()
	}
	return all
}

// The metrics of real runners arrive over TLS with the same values, labeled with their VM's name in the API server, and
// without the metrics of the runners' processes.
func TestMetricsOfRunners(t *testing.T) {
	t.Parallel()
	keys, targets := runners(t, 2)
	var text bytes.Buffer
	require.NoError(t, keys.Bounded(targets[0], MostBytes).Metrics(t.Context(), &text))
	own := parse(t, text.String())
	s := of([]string{"a", "b", "without"}, func(vm string) (Runner, error) {
		if vm == "without" {
			return nil, nil
		}
		return keys.Bounded(targets[strings.Index("ab", vm)], MostBytes), nil
	})
	all := parse(t, get(s))
	maps.DeleteFunc(own, func(name string, _ *dto.MetricFamily) bool { return !strings.HasPrefix(name, "vmop_") })
	require.Len(t, all, len(own)+1, "and vmop_vm_scraped")
	require.Greater(t, len(own), 10)
	changing := map[string]bool{
		"vmop_vm_uptime_seconds": true, "vmop_control_clients": true, "vmop_process_resident_memory_bytes": true,
	}
	for name, family := range own {
		got := all[name]
		require.Equal(t, family.GetType(), got.GetType())
		require.Equal(t, family.GetHelp(), got.GetHelp())
		require.Len(t, got.GetMetric(), 2*len(family.GetMetric()), name)
		for _, m := range family.GetMetric() {
			l := labels(m)
			for _, vm := range []string{"a", "b"} {
				l["name"], l["namespace"] = vm, "demo"
				i := slices.IndexFunc(got.GetMetric(), func(m *dto.Metric) bool { return maps.Equal(labels(m), l) })
				require.GreaterOrEqual(t, i, 0, "%s%v", name, l)
				if !changing[name] {
					require.Equal(t, m.GetGauge().GetValue(), got.GetMetric()[i].GetGauge().GetValue(), name)
					require.Equal(t, m.GetCounter().GetValue(), got.GetMetric()[i].GetCounter().GetValue(), name)
				}
			}
		}
	}
}

// A runner with a late or invalid answer, or without a connection, is left out and asked last the next time. A VM
// without a runner has no metrics.
func TestRunnersThatDoNotAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var asked []string
		s := of([]string{"silent", "refuses", "lies", "away", "well", "off"}, func(vm string) (Runner, error) {
			mu.Lock()
			asked = append(asked, vm)
			mu.Unlock()
			switch vm {
			case "silent":
				return play(func(ctx context.Context, _ io.Writer) error {
					<-ctx.Done()
					return ctx.Err()
				}), nil
			case "refuses":
				return play(func(context.Context, io.Writer) error { return errors.New("503") }), nil
			case "lies":
				return fixed("vmop_vm_cpus{name=\"well\"} 1\nvmop_vm_cpus{name=\"lies\"} one\n"), nil
			case "away":
				return nil, errors.New("the store cannot be read")
			case "off":
				return nil, nil
			}
			return fixed("vmop_vm_cpus{name=\"silent\"} 4\n"), nil
		})
		began := time.Now()
		text := get(s)
		require.Equal(t, patience, time.Since(began))
		require.Equal(t, map[string]float64{"silent": 0, "refuses": 0, "lies": 0, "away": 0, "well": 1},
			scrapedVMs(t, text))
		cpus := parse(t, text)["vmop_vm_cpus"].GetMetric()
		require.Len(t, cpus, 1)
		require.Equal(t, map[string]string{"name": "well", "namespace": "demo"}, labels(cpus[0]))
		require.Equal(t, 4.0, cpus[0].GetGauge().GetValue())
		time.Sleep(shareTime + 1)
		get(s)
		require.Equal(t, []string{"well", "off", "silent", "refuses", "lies", "away"}, s.last.vms)
		require.Len(t, asked, 12)
	})
}

// With too many slow runners, Prometheus gets the other metrics before its timeout, and the remaining ones the next
// time.
func TestAnAnswerIsInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const many, limit = 3 * concurrent, 5 * time.Second
		all := names()[:many+1]
		last := all[many]
		s := of(all, func(vm string) (Runner, error) {
			if vm == last {
				return fixed(""), nil
			}
			return play(func(ctx context.Context, _ io.Writer) error {
				<-ctx.Done()
				return ctx.Err()
			}), nil
		})
		ask := func() map[string]float64 {
			r, w := httptest.NewRequest("GET", "/metrics/vms", nil), httptest.NewRecorder()
			r.Header.Set("X-Prometheus-Scrape-Timeout-Seconds", "5")
			began := time.Now()
			s.ServeHTTP(w, r)
			require.Less(t, time.Since(began), limit)
			return scrapedVMs(t, w.Body.String())
		}
		first := ask()
		require.Len(t, first, many+1)
		require.Zero(t, first[last], "there was no time left")
		time.Sleep(shareTime + 1)
		require.Equal(t, 1.0, ask()[last])
	})
}

// Requests at the same time or within seconds share one round of answers, and without requests no runner is asked. A
// client that disconnects doesn't disturb the others.
func TestAnswersAreShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		s := of([]string{"web"}, func(string) (Runner, error) {
			return play(func(context.Context, io.Writer) error {
				asked.Add(1)
				time.Sleep(time.Second)
				return nil
			}), nil
		})
		gone, leave := context.WithCancel(t.Context())
		go s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(gone, "GET", "/metrics/vms", nil))
		synctest.Wait()
		leave()
		var texts [3]string
		var asking sync.WaitGroup
		for i := range texts {
			asking.Go(func() { texts[i] = get(s) })
		}
		asking.Wait()
		require.Contains(t, texts[0], `vmop_vm_scraped{name="web",namespace="demo"} 1`+"\n")
		require.Equal(t, []string{texts[0], texts[0], texts[0]}, texts[:])
		time.Sleep(shareTime - 1)
		get(s)
		require.EqualValues(t, 1, asked.Load())
		time.Sleep(time.Hour)
		require.EqualValues(t, 1, asked.Load())
		s.mu.Lock()
		require.Nil(t, s.last, "nothing is kept")
		s.mu.Unlock()
		get(s)
		require.EqualValues(t, 2, asked.Load())
	})
}

func TestAnswersArePacked(t *testing.T) {
	t.Parallel()
	s := of(names(), func(string) (Runner, error) { return fixed(`vmop_vm_cpus{name="x"} 2`), nil })
	r, w := httptest.NewRequest("GET", "/metrics/vms", nil), httptest.NewRecorder()
	r.Header.Set("Accept-Encoding", "gzip")
	s.ServeHTTP(w, r)
	require.Equal(t, "gzip", w.Header().Get("Content-Encoding"))
	packed, err := gzip.NewReader(w.Body)
	require.NoError(t, err)
	text, err := io.ReadAll(packed)
	require.NoError(t, err)
	require.Equal(t, get(s), string(text))
	require.Len(t, parse(t, string(text))["vmop_vm_cpus"].GetMetric(), fleet)
}

// FuzzRead proves that for any answer of a hostile runner the result is well-formed, concerns only its own VM, and has
// only the labels of a genuine runner.
func FuzzRead(f *testing.F) {
	f.Add(genuine(f))
	for _, line := range []string{
		`vmop_vm_state{name="x",state="a\"\\\n}"} NaN`, `vmop_vm_state{state="a",job="x"} 1`,
		`vmop_vm_state{state="a",state="b"} 1`, `vmop_vm_state{state="\x"} 1`,
		"vmop_vm_state{state=\"\x00\"} 1", "vmop_vm_state{state=\"\xff\"} 1",
		`vmop_vm_state{state="a"} 0x1p-2`, `vmop_vm_state{state="a"} 1 123`, `vmop_vm_state{state="a"} 1_0`,
		`vmop_vm_state{}`, `vmop_vm_state{state="a`, `vmop_vm_state{state="a"`, `vmop_vm_state{state="\`,
		`vmop_vm_state{state="` + strings.Repeat("a", largestValue+1) + `"} 1`, `up{} 1`,
		"# TYPE vmop_vm_state histogram",
	} {
		f.Add(line + "\n" + `vmop_vm_cpus{name="x"} 2` + "\n")
	}
	known := map[string][]string{"vmop_vm_scraped": nil}
	for _, family := range vmFamilies() {
		known[family.Name] = family.Labels
	}
	f.Fuzz(func(t *testing.T, answer string) {
		s := of([]string{"web"}, func(string) (Runner, error) { return fixed(answer), nil })
		for name, family := range parse(t, get(s)) {
			of, is := known[name]
			require.True(t, is, name)
			for _, m := range family.GetMetric() {
				all := labels(m)
				require.Len(t, all, len(m.GetLabel()), "each label once")
				require.Equal(t, "web", all["name"])
				require.Equal(t, "demo", all["namespace"])
				for l, value := range all {
					require.Contains(t, append([]string{"name", "namespace"}, of...), l)
					require.LessOrEqual(t, len(value), largestValue)
				}
			}
		}
	})
}
