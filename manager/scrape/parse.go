package scrape

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"vmop/runner/control"
)

// families are those of VMs: runners have others about their own process.
func families() (all []control.Family) {
	for _, f := range control.Families() {
		if strings.HasPrefix(f.Name, "vmop_") {
			all = append(all, f)
		}
	}
	return all
}

// A piece is one metric: what follows its VM's labels in the text format, in a reader's text.
type piece struct{ family, from, to int }

// reader reads answers of runners, one after the other.
type reader struct {
	families []control.Family
	index    map[string]int // of families, by name
	pieces   []piece
	text     []byte
}

func newReader(families []control.Family) *reader {
	r := &reader{families: families, index: map[string]int{}}
	for i, f := range families {
		r.index[f.Name] = i
	}
	return r
}

// errForm is that an answer is not what a runner sends.
var errForm = errors.New("the answer of the runner is not in the form of metrics")

// read reads an answer. Families and labels that are not known are left out: a runner may be newer.
func (r *reader) read(answer []byte) error {
	r.pieces, r.text = r.pieces[:0], r.text[:0]
	if !utf8.Valid(answer) {
		return errForm
	}
	for line := range bytes.Lines(answer) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		name, rest, _ := bytes.Cut(line, []byte("{"))
		family, known := r.index[string(name)]
		if !known {
			continue
		}
		if err := r.metric(family, rest); err != nil {
			return fmt.Errorf("%w: %.200q", err, line)
		}
	}
	return nil
}

// metric reads what follows the opening brace.
func (r *reader) metric(family int, rest []byte) error {
	from, known := len(r.text), r.families[family].Labels
	var seen, unknown int
	for more := true; more; {
		name, quoted, _ := bytes.Cut(rest, []byte(`="`))
		size := valueSize(quoted)
		if size < 0 || len(quoted) < size+2 {
			return errForm
		}
		i := slices.Index(known, string(name))
		switch {
		case i >= 0 && seen&(1<<i) != 0:
			return errForm
		case i >= 0:
			seen |= 1 << i
			r.text = append(append(r.text, ','), rest[:len(name)+2+size+1]...)
		case string(name) != nameLabel:
			unknown++
		}
		end := quoted[size+1]
		rest = quoted[size+2:]
		if more = end == ','; !more && end != '}' {
			return errForm
		}
	}
	value, err := strconv.ParseFloat(string(bytes.TrimPrefix(rest, []byte(" "))), 64)
	if err != nil {
		return errForm
	}
	if unknown > 0 {
		r.text = r.text[:from] // without it, the metric may not be the only one
		return nil
	}
	r.text = append(strconv.AppendFloat(append(r.text, "} "...), value, 'g', -1, 64), '\n')
	r.pieces = append(r.pieces, piece{family, from, len(r.text)})
	return nil
}

// The labels that say which VM a metric is of. Runners have the first one, too.
const (
	nameLabel      = "name"
	namespaceLabel = "namespace"
)

// largestValue bounds the value of a label, in bytes.
const largestValue = 256

// valueSize returns how many bytes of a text are before the quotation mark that ends the value of a label; -1 if
// it isn't one.
func valueSize(text []byte) int {
	for i := 0; i < min(len(text), largestValue+1); i++ {
		switch c := text[i]; {
		case c == '"':
			return i
		case c < ' ':
			return -1
		case c == '\\':
			if i++; i == len(text) || strings.IndexByte(`\"n`, text[i]) < 0 {
				return -1
			}
		}
	}
	return -1
}
