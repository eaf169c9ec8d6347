package web

import (
	"fmt"
	"io"
	"net"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"vmop/manager/web/fleet"
	"vmop/test/browser"
)

// BenchmarkChangeToDOM measures the time from a change of one of 5000 VMs until a browser shows it. 50 pages are open:
// one in the browser, the others as streams.
func BenchmarkChangeToDOM(b *testing.B) {
	p := newPlay(b)
	for i := range 5000 {
		p.Put(sample(fmt.Sprintf("vm-%04d", i), fleet.Running))
	}
	for range 49 {
		e := p.follow("/live?")
		go func() { _, _ = io.Copy(io.Discard, e.body) }()
	}
	page := browser.New(b)
	page.Open(p.http.URL+"/", "light", 1280)
	page.Do("watch", chromedp.Evaluate[chromedp.Void](`void (window.delays = [], new MutationObserver(() => {
		const at = /at-(\d+)/.exec(document.querySelector("#vm-vm-0007 .col-type").textContent);
		if (at && at[1] !== window.last) delays.push(Date.now() - Number(window.last = at[1]));
	}).observe(document.querySelector("main"), { subtree: true, childList: true }))`))
	n := 0
	for b.Loop() {
		vm := *sample("vm-0007", fleet.Running)
		vm.Type = "at-" + strconv.FormatInt(time.Now().UnixMilli(), 10)
		p.Put(&vm)
		n++
		page.Do("shown", browser.Holds(fmt.Sprintf("delays.length >= %d", n)))
	}
	delays := browser.Value[[]float64](page, "delays")
	slices.Sort(delays)
	b.ReportMetric(delays[len(delays)/2], "median-ms")
	b.ReportMetric(delays[len(delays)*95/100], "p95-ms")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkConsoleThroughput measures the throughput of a console's WebSocket, and of the Unix socket behind it.
func BenchmarkConsoleThroughput(b *testing.B) {
	const chunk = 1 << 20
	path := filepath.Join(b.TempDir(), "s")
	l, err := net.Listen("unix", path)
	require.NoError(b, err)
	b.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				for text := make([]byte, 4<<10); err == nil; {
					_, err = conn.Write(text)
				}
			}()
		}
	}()
	measure := func(b *testing.B, in io.Reader) {
		b.Helper()
		b.SetBytes(chunk)
		for b.Loop() {
			_, err := io.CopyN(io.Discard, in, chunk)
			require.NoError(b, err)
		}
	}
	b.Run("socket", func(b *testing.B) {
		conn, err := net.Dial("unix", path)
		require.NoError(b, err)
		defer conn.Close()
		measure(b, conn)
	})
	b.Run("websocket", func(b *testing.B) {
		p := newPlay(b, sample("web", fleet.Running))
		p.dial = func() (net.Conn, error) { return net.Dial("unix", path) }
		socket, _, err := websocket.Dial(b.Context(), "ws"+strings.TrimPrefix(p.http.URL, "http")+
			"/vms/web/console/stream?mode=type", nil)
		require.NoError(b, err)
		socket.SetReadLimit(-1)
		conn := websocket.NetConn(b.Context(), socket, websocket.MessageBinary)
		defer conn.Close()
		measure(b, conn)
	})
}

// BenchmarkScreens measures the memory of 200 open screens that have shown a picture. This includes the browsers' and
// the VMs' ends of the streams.
func BenchmarkScreens(b *testing.B) {
	const screens, picture = 200, 4 << 20
	for b.Loop() {
		p := newPlay(b, sample("web", fleet.Running))
		before := inUse()
		for range screens {
			socket, far := p.socket("/vms/web/screen/stream?mode=watch")
			socket.SetReadLimit(-1)
			go func() { _, _ = far.Write(make([]byte, picture)) }()
			_, err := io.CopyN(io.Discard, websocket.NetConn(b.Context(), socket, websocket.MessageBinary), picture)
			require.NoError(b, err)
		}
		b.ReportMetric(float64(inUse()-before)/(1<<20), "MiB")
	}
	b.ReportMetric(0, "ns/op")
}

// inUse returns the memory in use, in bytes.
func inUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}
