package store

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// A write's result can arrive after the watch has already delivered a newer state or the object's end; it must not
// replace them.
func TestAWriteReturnsLate(t *testing.T) {
	t.Parallel()
	var meanwhile func() // runs while an object is stored
	c := newCollection(encoding[*corev1.Pod]{
		trim: func(*corev1.Pod) {
			if do := meanwhile; do != nil {
				meanwhile = nil
				do()
			}
		},
		encode: (*corev1.Pod).Marshal,
		decode: func(text []byte) (*corev1.Pod, error) {
			pod := &corev1.Pod{}
			return pod, pod.Unmarshal(text)
		},
	}, newCompressor(), func(string, record) {})
	pod := func(version int) *corev1.Pod { return somePod("a", "vm", version, "node") }
	is := func(version, why string) {
		t.Helper()
		have, err := c.getObject("a")
		require.NoError(t, err)
		if version == "" {
			require.Nil(t, have, why)
			return
		}
		require.NotNil(t, have, why)
		require.Equal(t, version, have.ResourceVersion, why)
	}

	meanwhile = func() { require.NoError(t, c.Add(pod(3))) }
	require.NoError(t, c.learnWrite(pod(2)))
	is("3", "the watch was faster")
	require.NoError(t, c.learnWrite(pod(5)))
	require.NoError(t, c.Add(pod(4)))
	is("5", "the watch brings what was before the write")
	require.NoError(t, c.forgetObject(pod(4)))
	is("5", "it was changed after it had been read")

	meanwhile = func() { require.NoError(t, c.Delete(pod(7))) }
	require.NoError(t, c.learnWrite(pod(6)))
	is("", "it has been deleted since")
	require.NoError(t, c.learnWrite(pod(9)))
	require.NoError(t, c.Delete(pod(8)))
	is("9", "another was made since")
	require.NoError(t, c.forgetObject(pod(9)))
	is("", "a write found it to be gone")

	require.NoError(t, c.Replace([]any{pod(2)}, "3"))
	is("2", "a list starts again, even of a restored cluster")
	require.NoError(t, c.learnWrite(pod(4)))
	is("4", "")
}
