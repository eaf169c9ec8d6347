package guest_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/test/guest"
)

// Lost, repeated and torn records on a disk are detected.
func TestRecordsAreChecked(t *testing.T) {
	t.Parallel()
	const ring, size, start = 4096, 4 << 10, 1 << 20
	write := func(disk []byte, n uint32) {
		record := bytes.Repeat(binary.LittleEndian.AppendUint32(nil, n), size/4)
		copy(disk[start+int((n-1)%ring)*size:], record)
	}
	for _, last := range []uint32{0, 1, 5, ring, ring + 1, 3*ring + 7} {
		disk := guest.Recorder()
		for n := uint32(1); n <= last; n++ {
			write(disk, n)
		}
		require.NoError(t, guest.CheckRecords(disk, last))
		require.Equal(t, last, guest.LastRecord(disk))
		write(disk, last+1)
		require.NoError(t, guest.CheckRecords(disk, last))
		write(disk, last+2)
		require.ErrorContains(t, guest.CheckRecords(disk, last), "the last one there was")
	}
	full := guest.Recorder()
	for n := uint32(1); n <= ring+9; n++ {
		write(full, n)
	}
	lost := bytes.Clone(full)
	write(lost, 9) // instead of ring+9
	require.ErrorContains(t, guest.CheckRecords(lost, ring+9), "is 9, and the last one there was 4105")
	full[start+100*size+size-1] ^= 1
	require.ErrorContains(t, guest.CheckRecords(full, ring+9), "the record at place 100 is torn")
	require.Error(t, guest.CheckRecords(full[:start], ring+9))
}
