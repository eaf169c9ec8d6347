package snapshot

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmtypes/plan"
)

// The overall result is the failed copy's error, and it comes only after all copies have ended.
func TestJudge(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		jobs string
		over bool
		err  string
	}{
		"running":      {`[{"id": "vmop-snapshot-job0", "status": "running", "current-progress": 3, "total-progress": 9}]`, false, ""},
		"waiting":      {`[{"id": "vmop-snapshot-job0", "status": "waiting", "current-progress": 3, "total-progress": 9}]`, false, ""},
		"done":         {`[{"id": "vmop-snapshot-job0", "status": "concluded", "current-progress": 3, "total-progress": 9}]`, true, ""},
		"another's":    {`[{"id": "job0", "status": "running"}]`, true, "1 of 1 copies without a result"},
		"none":         {`[]`, true, "1 of 1 copies without a result"},
		"failed":       {`[{"id": "vmop-snapshot-job0", "status": "concluded", "error": "No space left on device"}]`, true, "No space"},
		"still ending": {`[{"id": "vmop-snapshot-job0", "status": "aborting", "error": "No space left on device"}]`, false, "No space"},
		"another failed": {`[{"id": "vmop-snapshot-job0", "status": "concluded", "error": "Operation was cancelled"},
			{"id": "vmop-snapshot-job1", "status": "concluded", "error": "No space left on device"}]`, true, "No space"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var jobs []job
			require.NoError(t, json.Unmarshal([]byte(c.jobs), &jobs))
			p, over, err := judgeJobs(jobs, 1)
			require.Equal(t, c.over, over)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, Progress{3, 9}, p)
		})
	}
}

func TestSizesOf(t *testing.T) {
	t.Parallel()
	var nodes []node
	require.NoError(t, json.Unmarshal([]byte(`[{"node-name": "a", "ro": false, "image": {"virtual-size": 5}},
		{"node-name": "b", "ro": true, "image": {"virtual-size": 6}}]`), &nodes))
	list, err := sizesOf(nodes, []Part{{Name: "first", node: "a"}, {Name: "second", node: "b"}})
	require.NoError(t, err)
	require.Equal(t, []Part{{Name: "first", node: "a", Size: 5}}, list, "what can't be written has nothing to keep")
	_, err = sizesOf(nodes, []Part{{Name: "third", node: "c"}})
	require.ErrorContains(t, err, "third: QEMU has no block node c")
}

func TestNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a", "before-update", "2026-11-24-102300", "v1.2_x"} {
		require.NoError(t, CheckName(name))
	}
	for _, name := range []string{"", ".", "..", ".making-a", "a/b", "-a", "ä", "a b", string(make([]byte, 64))} {
		require.ErrorIs(t, CheckName(name), ErrName, name)
	}
}

// A disk outside the plan is refused, not omitted.
func TestComplete(t *testing.T) {
	t.Parallel()
	p := &plan.Plan{Drives: []plan.Drive{{Device: "disk0", Nodes: []string{"disk0-format"}}, {Nodes: []string{"fw"}}}}
	for text, want := range map[string]string{
		`{"qdev": "/machine/peripheral/disk0/virtio-backend", "inserted": {"node-name": "disk0-format"}}`: "",
		`{"qdev": "/machine/system.flash1", "inserted": {"node-name": "fw"}}`:                             "",
		`{"qdev": "cd0", "inserted": {"node-name": "cd", "ro": true}}`:                                    "",
		`{"qdev": "cd1"}`: "",
		`{"qdev": "/machine/peripheral/usb7/virtio-backend", "inserted": {"node-name": "n7", "file": "/x"}}`: "the disk usb7 (/x)",
		`{"qdev": "/machine/peripheral/h1-0123456-data/virtio-backend", "inserted": {"node-name": "h1-0123456-data",
			"drv": "raw", "file": "/x"}}`: "the disk data (/x)",
		`{"qdev": "/machine/peripheral/h1-0123456-far/virtio-backend", "inserted": {"node-name": "h1-0123456-far",
			"drv": "nbd", "file": "nbd://h"}}`: "omitted: far",
	} {
		var devices []device
		require.NoError(t, json.Unmarshal([]byte("["+text+"]"), &devices))
		omitted, err := checkComplete(devices, p)
		if text, is := strings.CutPrefix(want, "omitted: "); is {
			require.NoError(t, err)
			require.Equal(t, []string{text}, omitted)
			continue
		}
		require.Empty(t, omitted)
		if want == "" {
			require.NoError(t, err, text)
			continue
		}
		require.ErrorContains(t, err, want)
		require.ErrorIs(t, err, ErrAttached)
	}
}

// Snapshots are listed in order of creation. A damaged snapshot is reported as an error and does not hide the others.
func TestListOfSnapshots(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	list, err := List(dir)
	require.NoError(t, err)
	require.Empty(t, list)
	for name, created := range map[string]string{
		"b": "2026-01-01", "a": "2026-01-02", "damaged": "", ".making-c": "2026-01-03",
	} {
		require.NoError(t, os.MkdirAll(snapshotFolder(dir, name), 0o700))
		text := `{"version": 1, "name": "` + name + `", "created": "` + created + `T00:00:00Z"}`
		require.NoError(t, os.WriteFile(filepath.Join(snapshotFolder(dir, name), descriptionFile), []byte(text), 0o600))
	}
	list, err = List(dir)
	require.ErrorContains(t, err, "damaged")
	require.Len(t, list, 2)
	require.Equal(t, []string{"b", "a"}, []string{list[0].Name, list[1].Name})
	_, err = Read(dir, "none")
	require.ErrorIs(t, err, ErrUnknown)
	require.NoError(t, Remove(dir, "a"))
	require.NoDirExists(t, snapshotFolder(dir, "a"))
	require.ErrorIs(t, Remove(dir, "a"), ErrUnknown)
	require.NoError(t, removeLeftovers(dir))
	require.NoDirExists(t, snapshotFolder(dir, ".making-c"))
}
