package qmp_test

import (
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/qmp"
)

// FuzzRead lets a peer send arbitrary data. The session and its commands end with ErrClosed, at the latest when the
// peer hangs up.
func FuzzRead(f *testing.F) {
	f.Add([]byte(greeting + "\r\n" + `{"return": {}, "id": 1}` + "\r\n" + `{"return": [1, 2], "id": 2}` + "\n"))
	f.Add([]byte(`{"event": "STOP", "timestamp": {"seconds": 1, "microseconds": 999999}}` + "\n\n"))
	f.Add([]byte(`{"error": {"class": "DeviceNotFound", "desc": "x"}}` + "\n" + `{"error": null, "id": 2}` + "\n"))
	f.Add([]byte("{\"return\": \"\xff\", \"id\": 2}\n[[[[{}"))
	f.Add([]byte(`{"QMP": {"version": {"qemu": {"major": "7"}}}}` + "\n"))
	f.Fuzz(func(t *testing.T, said []byte) {
		ours, theirs := net.Pipe()
		s := qmp.New(ours, qmp.WithMaxMessage(1<<10), qmp.WithMaxEvents(4))
		command := s.Start(qmp.Command{Execute: "query-status"})
		go io.Copy(io.Discard, theirs)
		theirs.Write(said)
		theirs.Close()
		closed(t, s)
		<-command.Done()
		_, err := s.Run(t.Context(), qmp.Command{Execute: "query-name"})
		require.ErrorIs(t, err, qmp.ErrClosed)
		events := 0
		for e := range s.Events() {
			require.NotEmpty(t, e.Name)
			events++
		}
		require.LessOrEqual(t, events, 5)
		require.NoError(t, s.Close())
	})
}
