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
	require.Equal(t, "Read this page, then that.", AdviceFor(string(ReasonTPMLost), nil, explanations))
	require.Empty(t, AdviceFor(string(ReasonVMStarted), nil, explanations))
	require.Empty(t, AdviceFor(string(ReasonVMBooted), nil, explanations))
}
