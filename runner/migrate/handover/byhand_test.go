package handover

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/diskimage/nbd"
	"vmop/qmp"
	"vmop/runner/migrate/link"
	"vmop/test/guest"
	"vmop/test/measure"
	"vmop/test/ports"
	"vmop/test/wait"
)

// The benchmark guest's nonzero data in memory and on its disk, in bytes.
const (
	benchMemory = 256 << 20
	benchDisk   = 64 << 20
)

// benchRAM is the total memory; see start for the odd size.
const benchRAM = "524296K"

// took contains the duration of a move: from the start of the target's QEMU to RESUME, and from STOP to RESUME.
type took struct{ total, downtime time.Duration }

// noise creates a file with incompressible bytes.
func noise(t testing.TB, size int) string {
	t.Helper()
	text := make([]byte, size)
	_, err := rand.NewChaCha8([32]byte{}).Read(text)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "noise")
	require.NoError(t, os.WriteFile(path, text, 0o600))
	return path
}

// moving returns a trial of the benchmark with a running guest. A local disk is moved with the guest.
func moving(b *testing.B, memory string, local bool) *trial {
	b.Helper()
	path := disk(b, false)
	if local {
		text, err := os.ReadFile(noise(b, benchDisk))
		require.NoError(b, err)
		copy(text, guest.Counter(false))
		require.NoError(b, os.WriteFile(path, text, 0o600))
	}
	r := newTrialOf(b, path)
	r.options = append(r.options, "-m", benchRAM)
	r.boot("-m", benchRAM, "-device", "loader,addr=0x4000000,force-raw=on,file="+memory)
	if local {
		r.toDisk = filepath.Join(b.TempDir(), "copy")
	}
	return r
}

// byRunners moves the guest with runners.
func (r *trial) byRunners() (t took) {
	r.t.Helper()
	if r.toDisk != r.disk {
		r.images = []Image{NewFile("a", "r", r.toDisk, "raw", benchDisk)}
	}
	begin := time.Now()
	target, _ := r.asTarget()
	require.NoError(r.t, get(r.t, r.asSource().ended))
	require.NoError(r.t, get(r.t, target.Decided()))
	end := r.to.await("RESUME")
	return took{end.Sub(begin), end.Sub(r.from.await("STOP"))}
}

// does runs QMP commands.
func (m *machine) does(list ...qmp.Command) {
	m.t.Helper()
	for _, c := range list {
		_, err := m.Command(m.t.Context(), c)
		require.NoError(m.t, err, c.Execute)
	}
}

// becomes waits until the migration has a status.
func (m *machine) becomes(status string) {
	m.t.Helper()
	ctx, cancel := wait.Context(m.t.Context())
	defer cancel()
	for {
		info, err := queryMigration(ctx, m)
		require.NoError(m.t, err)
		if info.Status == status {
			return
		}
		require.NotEqual(m.t, "failed", info.Status, info.Error)
		time.Sleep(time.Millisecond)
	}
}

// certificates creates the certificates of both sides for a QEMU, and returns the command that passes them to it.
func (m *machine) certificates(k link.Keys, endpoint string) qmp.Command {
	m.t.Helper()
	for name, text := range map[string]string{
		nbd.CAFile: k.Authority, endpoint + "-cert.pem": k.Certificate, endpoint + "-key.pem": k.Key,
	} {
		require.NoError(m.t, os.WriteFile(filepath.Join(m.dir, name), []byte(text), 0o600))
	}
	return qmp.Command{Execute: "object-add", Arguments: members{
		"qom-type": "tls-creds-x509", "id": "tls", "endpoint": endpoint, "verify-peer": true, "dir": m.dir,
	}}
}

// byHand moves the guest manually over both monitors, without recording anything.
func (r *trial) byHand(encrypted bool) took {
	r.t.Helper()
	local := r.toDisk != r.disk
	begin := time.Now()
	if local {
		require.NoError(r.t, os.WriteFile(r.toDisk, nil, 0o600))
		require.NoError(r.t, os.Truncate(r.toDisk, benchDisk))
	}
	r.set(start(r.t, r.toDisk, r.options...))
	memory := members{"uri": "tcp:127.0.0.1:" + strconv.Itoa(ports.Reserve(r.t))}
	server := members{"host": "127.0.0.1", "port": strconv.Itoa(ports.Reserve(r.t))}
	parameters := members{"max-bandwidth": unlimited, "downtime-limit": millisecondsUp(firstDowntime)}
	serve := members{"addr": members{"type": "inet", "data": server}}
	node := members{
		"driver": "nbd", "node-name": "n", "export": "a",
		"server": members{"type": "inet", "host": server["host"], "port": server["port"]},
	}
	if encrypted {
		r.to.does(r.to.certificates(r.target, "server"))
		r.from.does(r.from.certificates(r.keys, "client"))
		for _, m := range []members{parameters, serve, node} {
			m["tls-creds"] = "tls"
		}
		parameters["tls-hostname"], node["tls-hostname"] = "migration-target", "migration-target"
	}
	set := func(m *machine, more ...string) {
		var list []members
		for _, name := range append(more, "return-path", "late-block-activate") {
			list = append(list, members{"capability": name, "state": true})
		}
		m.does(
			qmp.Command{Execute: "migrate-set-capabilities", Arguments: members{"capabilities": list}},
			qmp.Command{Execute: "migrate-set-parameters", Arguments: parameters},
		)
	}
	set(r.to)
	r.to.does(qmp.Command{Execute: "migrate-incoming", Arguments: memory})
	migrate := qmp.Command{Execute: "migrate", Arguments: memory}
	if !local {
		set(r.from)
		r.from.does(migrate)
	} else {
		set(r.from, "pause-before-switchover")
		r.to.does(
			qmp.Command{Execute: "nbd-server-start", Arguments: serve},
			qmp.Command{Execute: "block-export-add", Arguments: members{
				"type": "nbd", "id": "e", "node-name": "r", "name": "a", "writable": true,
			}},
		)
		r.from.copies(node)
		r.from.does(migrate)
		r.from.becomes("pre-switchover")
		r.from.does(qmp.Command{Execute: "block-job-cancel", Arguments: members{"device": "j"}})
		stop := r.from.await("STOP")
		r.from.await("BLOCK_JOB_COMPLETED")
		r.to.does(qmp.Command{Execute: "nbd-server-stop"})
		r.from.does(qmp.Command{Execute: "migrate-continue", Arguments: members{"state": "pre-switchover"}})
		return r.resumes(begin, stop)
	}
	r.to.becomes("completed")
	return r.resumes(begin, r.from.await("STOP"))
}

// copies copies the disk to a block node, and returns when both are in sync.
func (m *machine) copies(to members) {
	m.t.Helper()
	m.does(
		qmp.Command{Execute: "blockdev-add", Arguments: to},
		qmp.Command{Execute: "blockdev-mirror", Arguments: members{
			"job-id": "j", "device": "r", "target": "n", "sync": "full", "copy-mode": "write-blocking",
		}},
	)
	m.await("BLOCK_JOB_READY")
}

// resumes runs the guest at the target after the transfer.
func (r *trial) resumes(begin, stop time.Time) took {
	r.t.Helper()
	r.to.becomes("completed")
	r.to.does(qmp.Command{Execute: "cont"})
	end := r.to.await("RESUME")
	return took{end.Sub(begin), end.Sub(stop)}
}

// BenchmarkMigration moves an idle guest alternately with two runners and by hand, with and without TLS, and prints a
// comparison (make bench-migration).
func BenchmarkMigration(b *testing.B) {
	memory, before := noise(b, benchMemory), measure.Load()
	rows := [][]string{
		{"", "runners", "least", "by hand, TLS", "least", "ratio", "by hand, plain", "least", "goal"},
		{"---", "---:", "---:", "---:", "---:", "---:", "---:", "---:", "---"},
	}
	rounds := 0
	for _, kind := range []string{"shared", "local"} {
		b.Run(kind, func(b *testing.B) {
			var all [3][]took
			for b.Loop() {
				for i, move := range []func(*trial) took{
					(*trial).byRunners, func(r *trial) took { return r.byHand(true) },
					func(r *trial) took { return r.byHand(false) },
				} {
					r := moving(b, memory, kind == "local")
					all[i] = append(all[i], move(r))
					r.from.kill()
					r.to.kill()
				}
			}
			rounds = len(all[0])
			for _, m := range []struct {
				name, goal string
				of         func(took) time.Duration
			}{
				{"total", "<= 1.10 x", func(t took) time.Duration { return t.total }},
				{"downtime", "<= 50 ms, <= 1.20 x", func(t took) time.Duration { return t.downtime }},
			} {
				row := []string{"disk " + kind + ", " + m.name}
				var medians [3]float64
				for i, list := range all {
					var least float64
					medians[i], least = middle(list, m.of)
					row = append(row, fmt.Sprintf("%.0f ms", medians[i]), fmt.Sprintf("%.0f", least))
				}
				ratio := fmt.Sprintf("%.2f x", medians[0]/medians[1])
				rows = append(rows, append(slices.Insert(row, 5, ratio), m.goal))
				b.ReportMetric(medians[0], m.name+"-ms")
				b.ReportMetric(medians[0]/medians[1], m.name+"-x")
			}
		})
	}
	if rounds > 1 { // the first run of a benchmark has one round
		fmt.Printf("load %s before, %s after; medians of %d rounds\n", before, measure.Load(), rounds)
		measure.Table(os.Stdout, rows)
	}
}

// middle returns the median and the minimum in milliseconds.
func middle(all []took, of func(took) time.Duration) (median, least float64) {
	list := make([]float64, len(all))
	for i, t := range all {
		list[i] = float64(of(t).Microseconds()) / 1000
	}
	slices.Sort(list)
	return list[len(list)/2], list[0]
}
