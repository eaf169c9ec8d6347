package lsp

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/creachadair/jrpc2"
)

// formatting returns the edit that formats the document, or no edit if the document is already formatted.
func (s *server) formatting(_ context.Context, params *documentParams) ([]textEdit, error) {
	v, err := s.viewOf(params.TextDocument.URI)
	if err != nil {
		return nil, err
	}
	formatted, err := s.options.Format(v.document.module, v.text.content)
	if err != nil {
		return nil, jrpc2.Errorf(codeRequestFailed, "format: %v", err)
	}
	if formatted == v.text.content {
		return []textEdit{}, nil
	}
	return []textEdit{{Range: v.text.wholeSpan(), NewText: formatted}}, nil
}

// widestHint is the maximum length of an argument in a hint, in characters.
const widestHint = 90

// longestWait is the maximum time that a request waits for the evaluation of a folder. The hints follow later if the
// editor asks again.
const longestWait = 5 * time.Second

// inlayHint shows, at the ends of lines, the QEMU options that the lines create for a sample. If the editor can refresh
// hints, it answers immediately, because the server asks for a refresh after each evaluation. Otherwise, it waits for
// the current evaluation.
func (s *server) inlayHint(ctx context.Context, params *rangeParams) ([]inlayHint, error) {
	f, _, err := s.documentFor(params.TextDocument.URI)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	settled, refreshes := f.settled, s.editor.refresh
	s.mu.Unlock()
	if !refreshes {
		timer := time.NewTimer(longestWait)
		defer timer.Stop()
		select {
		case <-settled:
		case <-timer.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	hints := []inlayHint{}
	_, d := s.findDocument(params.TextDocument.URI)
	if d == nil || f.result == nil || f.result.texts[d.module] != d.text {
		return hints, nil // the document has changed; the editor will ask again
	}
	for _, m := range f.result.made[d.module] {
		line := m.line - 1
		if line < params.Range.Start.Line || line > params.Range.End.Line {
			continue
		}
		hints = append(hints, inlayHint{
			Position: position{line, unitsIn(d.text.lineText(line))}, PaddingLeft: true,
			Label: m.hintLabel(), Tooltip: m.sample + ":\n" + strings.Join(slices.Concat(m.own, m.called), "\n"),
		})
	}
	return hints, nil
}

// hintLabel returns the hint for a line.
func (m made) hintLabel() string {
	first, more := m.own, len(m.called)
	switch {
	case len(first) == 0 && more == 1:
		first = m.called
	case len(first) == 0:
		return fmt.Sprintf("→ %d options", more)
	default:
		more += len(first) - 1
	}
	words := []rune(first[0])
	if len(words) > widestHint {
		words = append(words[:widestHint], '…')
	}
	label := "→ " + string(words)
	if more > 0 && len(m.own) > 0 {
		label += fmt.Sprintf(" and %d more", more)
	}
	return label
}
