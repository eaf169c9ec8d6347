package browser

import (
	_ "embed"
	"os"
	"strings"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// layoutScript defines layoutFaults, which returns the problems in the layout of the current page.
//
//go:embed layout.js
var layoutScript string

// Layout requires that the page fits into its window: no element is wider than the window or covers another element,
// and no text is cut. The same holds while the pointer is over any element. what describes the page in the error.
func (b *Browser) Layout(what string) {
	b.t.Helper()
	assert.Empty(b.t, b.LayoutFaults(), what)
}

// LayoutFaults returns the problems that Layout reports, one per line.
func (b *Browser) LayoutFaults() string {
	b.t.Helper()
	faults, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](layoutScript+"; layoutFaults()"))
	require.NoError(b.t, err)
	return faults
}

// Chosen reports whether a test shows the page of this name. The variable PAGE limits tests to pages with a text in
// their names, for work on the design.
func Chosen(name string) bool { return strings.Contains(name, os.Getenv("PAGE")) }
