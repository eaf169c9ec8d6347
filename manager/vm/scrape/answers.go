package scrape

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"sync"

	"vmop/runner/control"
)

// answers contains the metrics of many VMs, grouped by family as the text format requires. It omits the parts that
// many lines share, which are most of the text.
type answers struct {
	namespace string
	families  []control.Family
	vms       []string

	mu   sync.Mutex // held while runners are queried
	kept []blocks   // by family
	ends []end      // by VM
}

// end is the result of querying a VM's runner.
type end byte

const (
	noRunner end = iota
	unasked      // no time was left
	silent
	answered
)

// blocks is a growing sequence of bytes. Existing blocks are not copied when it grows.
type blocks [][]byte

const blockSize = 1 << 16

// addPiece appends a metric: the number of its VM, and its piece of text.
func (b *blocks) addPiece(vm int, text []byte) {
	last := len(*b) - 1
	if last < 0 || len((*b)[last])+binary.MaxVarintLen32+len(text) > blockSize {
		var block []byte
		if last++; last > 0 {
			block = make([]byte, 0, blockSize)
		}
		*b = append(*b, block)
	}
	(*b)[last] = append(binary.AppendUvarint((*b)[last], uint64(vm)), text...)
}

// addReader appends the metrics of a VM that a reader has read.
func (a *answers) addReader(vm int, r *reader) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range r.pieces {
		a.kept[p.family].addPiece(vm, r.text[p.from:p.to])
	}
}

// scrapedFamily returns the family of metrics that show which VMs have the others.
func scrapedFamily() control.Family {
	return control.Family{
		Name: "vmop_vm_scraped", Type: "gauge",
		Help: "1 if the runner of the VM has answered the manager with its metrics, 0 if it has not.",
	}
}

// writeMetrics writes the metrics in the text format. No metrics may be added at the same time.
func (a *answers) writeMetrics(to io.Writer) error {
	out := bufio.NewWriterSize(to, blockSize) // keeps the first error for Flush
	out.WriteString(scrapedFamily().Head())
	for vm, end := range a.ends {
		switch end {
		case noRunner:
		case answered:
			a.writeMetric(out, scrapedFamily(), vm, []byte("} 1\n"))
		default:
			a.writeMetric(out, scrapedFamily(), vm, []byte("} 0\n"))
		}
	}
	for i, f := range a.families {
		out.WriteString(f.Head())
		for _, block := range a.kept[i] {
			for len(block) > 0 {
				vm, size := binary.Uvarint(block)
				end := bytes.IndexByte(block[size:], '\n') + size + 1 // a label contains no newline
				a.writeMetric(out, f, int(vm), block[size:end])
				block = block[end:]
			}
		}
	}
	return out.Flush()
}

// writeMetric writes a metric of a VM. The names of VM and namespace need no quoting, since the API server has
// validated them.
func (a *answers) writeMetric(out *bufio.Writer, f control.Family, vm int, piece []byte) {
	for _, part := range [...]string{
		f.Name, `{` + nameLabel + `="`, a.vms[vm], `",` + namespaceLabel + `="`, a.namespace, `"`,
	} {
		out.WriteString(part)
	}
	out.Write(piece)
}
