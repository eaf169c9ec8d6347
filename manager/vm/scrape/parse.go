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

// vmFamilies returns the families about VMs. Runners also have families about their own process.
func vmFamilies() (all []control.Family) {
	for _, f := range control.Families() {
		if strings.HasPrefix(f.Name, "vmop_") {
			all = append(all, f)
		}
	}
	return all
}

// piece is one metric: the part of the line after the VM's labels in the text format, as a range in a reader's text.
type piece struct{ family, from, to int }

// reader parses the answers of runners, one after the other.
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

// errForm means that an answer is not in the form that runners send.
var errForm = errors.New("the answer of the runner is not in the form of metrics")

// readAnswer parses an answer. It skips unknown families and labels, since a runner may be newer.
func (r *reader) readAnswer(answer []byte) error {
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
		if err := r.readMetric(family, rest); err != nil {
			return fmt.Errorf("%w: %.200q", err, line)
		}
	}
	return nil
}

// readMetric parses the text after the opening brace.
func (r *reader) readMetric(family int, rest []byte) error {
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
		r.text = r.text[:from] // without the label, the metric may not be unique
		return nil
	}
	r.text = append(strconv.AppendFloat(append(r.text, "} "...), value, 'g', -1, 64), '\n')
	r.pieces = append(r.pieces, piece{family, from, len(r.text)})
	return nil
}

// Labels that identify the VM of a metric. Runners also send the first label.
const (
	nameLabel      = "name"
	namespaceLabel = "namespace"
)

// largestValue limits the value of a label, in bytes.
const largestValue = 256

// valueSize returns the number of bytes before the quotation mark that ends the value of a label, or -1 if the text
// is not a valid value.
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
