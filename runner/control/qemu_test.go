package control_test

import (
	"bytes"
	"context"
	"encoding/json"
	"image"
	"image/color"
	"image/png"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/qmp"
	"vmop/runner/control"
	"vmop/runner/status"
	"vmop/test/guest"
	"vmop/test/paused"
	"vmop/vmtypes"
)

// serveQEMU serves a real QEMU with firmware that writes to its screen and to the serial port.
func serveQEMU(t *testing.T, more ...string) *served {
	t.Helper()
	s := serve(t)
	session := paused.Start(t, append([]string{
		"-m", "64", "-vga", "std",
		"-vnc", "unix:" + s.backend.plan.Socket("vnc"),
		"-vnc", "id=screen,share=force-shared,vnc=unix:" + s.backend.plan.Socket("screen"),
		"-device", "isa-serial,chardev=console", "-machine", "graphics=off",
		"-chardev", "socket,id=console,server=on,wait=off,path=" + s.backend.plan.Socket("console"),
	}, more...)...)
	s.backend.run = session.Run
	require.NoError(t, session.Ready(timeout(t)))
	go func() {
		for e := range session.Events() {
			s.Event(e)
		}
	}()
	return s
}

// QEMU's counters belong to the guest: its firmware has read the drive.
func TestUsageOfQEMU(t *testing.T) {
	t.Parallel()
	image := filepath.Join(t.TempDir(), "disk.img")
	require.NoError(t, os.WriteFile(image, guest.Echo(), 0o600))
	s := serveQEMU(t, "-drive", "if=ide,format=raw,file="+image)
	ctx := timeout(t)
	require.NoError(t, s.tracker.Update(status.Process{PID: os.Getpid()})) // any process with some CPU time
	before, err := s.client.Usage(ctx)
	require.NoError(t, err)
	require.Len(t, before, 1, "what is now")
	require.Zero(t, before[0].Read)
	require.Positive(t, before[0].Memory)
	require.Nil(t, before[0].Received, "it has no tap")
	_, err = s.client.QMP(ctx, qmp.Command{Execute: "cont"})
	require.NoError(t, err)
	for {
		now, err := s.client.Usage(ctx)
		require.NoError(t, err)
		if now[0].Read >= 512 {
			require.Greater(t, now[0].At, before[0].At)
			break
		}
	}
	var text bytes.Buffer
	require.NoError(t, s.client.Metrics(ctx, &text))
	require.Regexp(t, `(?m)^vmop_vm_storage_read_traffic_bytes_total\{name="[^"]*",drive="ide0-hd0"\} [1-9]`, text.String())
	require.Regexp(t, `(?m)^vmop_vm_cpu_usage_seconds_total\{name="[^"]*"\} [0-9.]+$`, text.String())
	r, err := s.client.Rate(ctx)
	require.NoError(t, err)
	require.Positive(t, r.Memory)
	require.Nil(t, r.Sent)
}

// A module of the type is found by its name in the plan.
func TestSource(t *testing.T) {
	t.Parallel()
	library, err := vmtypes.Open("")
	require.NoError(t, err)
	standard, err := library.Load(t.Context(), "standard")
	require.NoError(t, err)
	archive, err := standard.Archive()
	require.NoError(t, err)
	s := serve(t, func(o *control.Options) { o.Archive = func() []byte { return archive } })
	text, err := s.client.Source(t.Context(), "@vmtypes//lib/tpm.star")
	require.NoError(t, err)
	require.Contains(t, text, "def tpm")
	var answer *control.AnswerError
	for _, module := range []string{"", "lib/tpm.star", "../../etc/passwd", "no\nmodule"} {
		_, err = s.client.Source(t.Context(), module)
		require.ErrorAs(t, err, &answer, module)
		require.Equal(t, http.StatusNotFound, answer.Code, module)
	}
	_, err = serve(t).client.Source(t.Context(), "@vmtypes//lib/tpm.star")
	require.ErrorAs(t, err, &answer)
}

func TestAgainstQEMU(t *testing.T) {
	t.Parallel()
	s := serveQEMU(t)
	ctx := timeout(t)
	serial, err := net.Dial("unix", s.backend.plan.Socket("console"))
	require.NoError(t, err)
	s.Console().Attach(serial)
	events, err := s.client.Events(ctx, control.TypeQMP)
	require.NoError(t, err)
	defer events.Close()
	console := s.open(t, control.Watch)

	_, err = s.client.QMP(ctx, qmp.Command{Execute: "cont"})
	require.NoError(t, err)
	e, err := events.Next()
	require.NoError(t, err)
	require.Equal(t, "RESUME", e.Event)
	expect(t, console, "SeaBIOS")

	var shot bytes.Buffer
	require.NoError(t, s.client.Screenshot(ctx, &shot))
	img, err := png.Decode(&shot)
	require.NoError(t, err)
	require.Equal(t, image.Rect(0, 0, 720, 400), img.Bounds())
	left, err := filepath.Glob(filepath.Join(s.dir, "shot*"))
	require.NoError(t, err)
	require.Empty(t, left)

	viewer, err := s.client.VNC(ctx)
	require.NoError(t, err)
	defer viewer.Close()
	require.Equal(t, "RFB 003.008\n", expect(t, viewer, "\n"))

	_, err = s.client.QMP(ctx, qmp.Command{Execute: "device_del", Arguments: map[string]string{"id": "x"}})
	require.ErrorIs(t, err, qmp.DeviceNotFound)
}

// If QEMU can't write PNG, it writes PPM, which is converted to the same picture.
func TestAScreenshotOfAnOldQEMU(t *testing.T) {
	t.Parallel()
	s := serveQEMU(t)
	ctx := timeout(t)
	var news, olds bytes.Buffer
	require.NoError(t, s.client.Screenshot(ctx, &news))
	run := s.backend.run
	s.backend.run = func(ctx context.Context, c qmp.Command) (json.RawMessage, error) {
		if arguments, ok := c.Arguments.(map[string]string); ok && arguments["format"] != "" {
			return nil, &qmp.Error{Class: qmp.GenericError, Desc: "Parameter 'format' is unexpected"}
		}
		return run(ctx, c)
	}
	require.NoError(t, s.client.Screenshot(ctx, &olds))
	want, err := png.Decode(&news)
	require.NoError(t, err)
	got, err := png.Decode(&olds)
	require.NoError(t, err)
	require.Equal(t, want.Bounds(), got.Bounds())
	for y := range want.Bounds().Dy() {
		for x := range want.Bounds().Dx() {
			require.Equal(t, color.RGBAModel.Convert(want.At(x, y)), color.RGBAModel.Convert(got.At(x, y)))
		}
	}
}

func TestNoScreen(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.backend.run = func(context.Context, qmp.Command) (json.RawMessage, error) {
		return nil, &qmp.Error{Class: qmp.GenericError, Desc: "There is no console to take a screendump from."}
	}
	var out bytes.Buffer
	require.EqualError(t, s.client.Screenshot(t.Context(), &out), "There is no console to take a screendump from.")
	s.backend.run = func(context.Context, qmp.Command) (json.RawMessage, error) {
		return nil, control.Refusal("QEMU does not run")
	}
	require.EqualError(t, s.client.Screenshot(t.Context(), &out), "QEMU does not run")
}
