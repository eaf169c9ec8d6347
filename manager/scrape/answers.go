package scrape

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"sync"

	"vmop/runner/control"
)

// answers are the metrics of many VMs, by family as the text format requires. What is the same in many lines is
// not kept, since that is most of them.
type answers struct {
	namespace string
	families  []control.Family
	vms       []string

	mu   sync.Mutex // while runners are asked
	kept []blocks   // of each family
	ends []end      // of each VM
}

// end is how it ended to ask for a VM's metrics.
type end byte

const (
	noRunner end = iota
	unasked      // there was no time left
	silent
	answered
)

// blocks are bytes, of which those that were kept earlier aren't copied when there are more.
type blocks [][]byte

const blockSize = 1 << 16

// add keeps a metric: the number of its VM, and its piece.
func (b *blocks) add(vm int, text []byte) {
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

// add keeps what a reader has read of a VM.
func (a *answers) add(vm int, r *reader) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range r.pieces {
		a.kept[p.family].add(vm, r.text[p.from:p.to])
	}
}

// scraped is the family of metrics that tell which VMs have the others.
func scraped() control.Family {
	return control.Family{
		Name: "vmop_vm_scraped", Type: "gauge",
		Help: "1 if the runner of the VM has answered the manager with its metrics, 0 if it has not.",
	}
}

// write writes the metrics in the text format. Nothing is added meanwhile.
func (a *answers) write(to io.Writer) error {
	out := bufio.NewWriterSize(to, blockSize) // it keeps the first error, for Flush
	out.WriteString(scraped().Head())
	for vm, end := range a.ends {
		switch end {
		case noRunner:
		case answered:
			a.metric(out, scraped(), vm, []byte("} 1\n"))
		default:
			a.metric(out, scraped(), vm, []byte("} 0\n"))
		}
	}
	for i, f := range a.families {
		out.WriteString(f.Head())
		for _, block := range a.kept[i] {
			for len(block) > 0 {
				vm, size := binary.Uvarint(block)
				end := bytes.IndexByte(block[size:], '\n') + size + 1 // there is none in a label
				a.metric(out, f, int(vm), block[size:end])
				block = block[end:]
			}
		}
	}
	return out.Flush()
}

// metric writes a metric of a VM. Its name and that of the namespace need no quotation: the API server has checked
// them.
func (a *answers) metric(out *bufio.Writer, f control.Family, vm int, piece []byte) {
	for _, part := range [...]string{
		f.Name, `{` + nameLabel + `="`, a.vms[vm], `",` + namespaceLabel + `="`, a.namespace, `"`,
	} {
		out.WriteString(part)
	}
	out.Write(piece)
}
