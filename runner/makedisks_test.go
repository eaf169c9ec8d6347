package runner_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/internal/yamlfile"
	"vmop/runner/control"
	"vmop/test/guest"
	"vmop/vmstatus"
)

// publisher serves a qcow2 image of a disk that a BIOS can boot.
type publisher struct {
	*httptest.Server
	fetched atomic.Int32
	// gate holds back the second half of the image until it is closed.
	gate chan struct{}
}

func (v *vm) publisher() *publisher {
	v.t.Helper()
	raw, qcow2 := v.path("published.raw"), v.path("published.qcow2")
	require.NoError(v.t, os.WriteFile(raw, append(guest.Sector(), make([]byte, 2<<20-512)...), 0o600))
	out, err := exec.Command("qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw, qcow2).CombinedOutput()
	require.NoError(v.t, err, "%s", out)
	image, err := os.ReadFile(qcow2)
	require.NoError(v.t, err)
	p := &publisher{gate: make(chan struct{})}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/disk.qcow2" {
			http.NotFound(w, r)
			return
		}
		p.fetched.Add(1)
		w.Header().Set("Content-Length", fmt.Sprint(len(image)))
		_, _ = w.Write(image[:len(image)/2])
		w.(http.Flusher).Flush()
		select {
		case <-p.gate:
			_, _ = w.Write(image[len(image)/2:])
		case <-r.Context().Done():
		}
	}))
	v.t.Cleanup(p.Close)
	return p
}

// ofImage returns the lines of a small machine with a disk created from an image.
func ofImage(drive string) []string {
	return []string{
		"accelerator: tcg", "firmware: bios", "network: []", "maximumRam: 64 MiB", "powerdownTimeout: 0",
		"drives: [{file: disk.img, " + drive + "}]",
	}
}

// A VM boots from a disk created from the image at a URL. The status shows the progress. A stop request cancels the
// download, and the next start restarts it.
func TestAGuestBootsFromADiskThatIsMadeOfAnImage(t *testing.T) {
	t.Parallel()
	v := newVM(t, "standard")
	p := v.publisher()
	v.configure("standard", nil, ofImage("size: 3 MiB, source: "+p.URL+"/disk.qcow2")...)
	v.start()
	v.logged("preparing a disk", "progress", "fetching "+p.URL)
	client := v.client()
	s, err := client.Status(t.Context())
	require.NoError(t, err)
	require.Equal(t, vmstatus.StateInitializing, s.State)
	require.Equal(t, vmstatus.ReasonPreparingDisks, s.Reason)
	require.Contains(t, s.Message, "fetching "+p.URL+"/disk.qcow2")
	require.ErrorContains(t, client.Act(t.Context(), control.Pause), "its disks are being created")
	require.NoError(t, client.Act(t.Context(), control.Stop))
	_, err = v.wait()
	require.ErrorContains(t, err, "stopped while the VM was being started")
	require.NoFileExists(t, v.path("disk.img"))
	v.nothingLeft()

	close(p.gate)
	c := attach(v)
	v.runs()
	c.Await(guest.SectorSays)
	v.ends()
	info, err := os.Stat(v.path("disk.img"))
	require.NoError(t, err)
	require.Equal(t, int64(3<<20), info.Size())
	v.nothingLeft()

	v.onPaused = nil
	before := p.fetched.Load()
	require.NoError(t, os.WriteFile(v.path("disk.img"), make([]byte, 3<<20), 0o600))
	v.log.forget()
	v.runs()
	v.notLogged("preparing a disk")
	v.ends()
	require.Equal(t, before, p.fetched.Load(), "a disk that is there stays")
}

func TestWhatCannotBeFetchedIsAFaultAtItsPlace(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ drive, want string }{
		"nothing there": {"source: URL/gone", "vm.drives[0].source: "},
		"too small": {
			"size: 1 MiB, source: URL/disk.qcow2", "vm.drives[0].size: the disk of the image has 2.00 MiB, more than the allowed 1 MiB",
		},
		"another checksum": {
			"source: URL/disk.qcow2, sourceChecksum: 'md5:00112233445566778899aabbccddeeff'",
			"vm.drives[0].sourceChecksum: ",
		},
		"unknown name": {"source: debain/12", "debain/12: there is no image of that name (did you mean debian/12?)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newVM(t, "standard")
			p := v.publisher()
			close(p.gate)
			v.configure("standard", nil, ofImage(strings.ReplaceAll(test.drive, "URL", p.URL))...)
			v.start()
			_, err := v.wait()
			var faults yamlfile.Faults
			require.True(t, errors.As(err, &faults), "%v", err)
			require.ErrorContains(t, err, test.want)
			require.NoFileExists(t, v.path("disk.img"))
			v.nothingLeft()
		})
	}
	t.Run("a server that is away", func(t *testing.T) {
		t.Parallel()
		v := newVM(t, "standard")
		p := v.publisher()
		p.Close()
		v.configure("standard", nil, ofImage("sourceChecksum: '', source: "+p.URL+"/disk.qcow2")...)
		v.start()
		v.logged("preparing a disk")
		_, err := v.stop()
		require.Error(t, err)
		require.False(t, errors.As(err, new(yamlfile.Faults)), "another attempt may succeed: %v", err)
	})
}
