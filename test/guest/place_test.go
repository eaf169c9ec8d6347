package guest

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// holdPlace names the variable with the folder from which the test binary takes a place.
const holdPlace = "VMOP_TEST_HOLD_PLACE"

// A place is free again when the process that holds it is killed, even if a child of the process is still running.
func TestAPlaceEndsWithItsProcess(t *testing.T) {
	t.Parallel()
	if dir := os.Getenv(holdPlace); dir != "" {
		place, err := lockPlace(t.Context(), dir, 1)
		require.NoError(t, err)
		defer place.Close()                  // prevents its garbage collection
		child := exec.Command("sleep", "10") // like QEMU, it survives this process
		require.NoError(t, child.Start())
		os.Stdout.WriteString("held\n")
		time.Sleep(time.Minute)
	}
	dir := t.TempDir()
	holder := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAPlaceEndsWithItsProcess$")
	holder.Env = append(os.Environ(), holdPlace+"="+dir)
	output, err := holder.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, holder.Start())
	line, err := bufio.NewReader(output).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "held\n", line)

	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = lockPlace(short, dir, 1)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	second, err := lockPlace(t.Context(), dir, 2)
	require.NoError(t, err)
	require.NoError(t, second.Close())

	require.NoError(t, holder.Process.Kill())
	_ = holder.Wait()
	place, err := lockPlace(t.Context(), dir, 1)
	require.NoError(t, err)
	require.NoError(t, place.Close())
}

// A test takes one place, and its subtests take none.
func TestATestTakesOnePlace(t *testing.T) {
	t.Parallel()
	all := names{held: map[string]bool{}}
	require.True(t, all.addTest("TestA"))
	require.False(t, all.addTest("TestA"))
	require.False(t, all.addTest("TestA/one/two"))
	require.True(t, all.addTest("TestAB"))
	all.removeTest("TestA")
	require.True(t, all.addTest("TestA/one"))
	require.True(t, all.addTest("TestA/two"))
}
