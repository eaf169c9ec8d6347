package vmstatus

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAdviceIsPlainText(t *testing.T) {
	t.Parallel()
	explanations := []Explanation{
		{Reasons: []Reason{ReasonVMStarted}, Meaning: "started"},
		{Reasons: []Reason{ReasonPaused, ReasonTPMLost}, Advice: "Read [this page](a.md#b), then [that](c.md)."},
	}
	require.Equal(t, "Read this page, then that.", AdviceFor(ReasonTPMLost, explanations))
	require.Empty(t, AdviceFor(ReasonVMStarted, explanations))
	require.Empty(t, AdviceFor(ReasonVMBooted, explanations))
}
