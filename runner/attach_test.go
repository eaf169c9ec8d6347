package runner_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/status"
)

// A disk that is added to the configuration is attached, though QEMU may open no file
// that it was not started with; the image is made. A guest that is no more than firmware doesn't release it, which
// the status says.
func TestADiskIsAttachedByTheConfiguration(t *testing.T) {
	t.Parallel()
	v := changeable(t)
	v.runs()
	is := func(state, message string) func(status.Status) bool {
		return func(s status.Status) bool {
			return len(s.Drives) == 1 && s.Drives[0].Name == "data" && s.Drives[0].State == state &&
				s.Drives[0].Message == message
		}
	}
	v.configure("wrapped", nil, v.section("drives: [{file: data.img, size: 1 MiB, serial: data}]")...)
	s := v.becomes("the disk is attached", is(status.DriveAttached, ""))
	require.EqualValues(t, 1<<20, s.Drives[0].Capacity)
	require.Empty(t, s.RestartAwaitingChanges)
	require.FileExists(t, v.path("data.img"))

	v.configure("wrapped", nil, v.section("drives: [{file: data.img, serial: data, readOnly: true}]")...)
	v.becomes("the difference is a problem", func(s status.Status) bool {
		return slices.ContainsFunc(s.Problems, func(p status.Problem) bool { return p.Path == "vm.drives[0]" })
	})
	v.configure("wrapped", nil, v.section()...)
	v.becomes("the guest is asked", is(status.DriveDetaching, "waiting for the guest to release the disk"))
	_, err := v.stop()
	require.NoError(t, err)
	v.nothingLeft()
}
