package diskimage

import (
	"encoding/binary"
	"os"
)

// Layout of a qcow2 image (QEMU's docs/interop/qcow2.rst).
const (
	clusterBits = 16
	clusterSize = 1 << clusterBits // bytes
	perL2       = clusterSize / 8  // clusters of the disk per L2 table
	perRefcount = clusterSize / 2  // clusters of the file per block of reference counts
	copied      = 1 << 63          // the cluster has no other reference
	headerSize  = 104
)

// qcow2Writer writes a disk as a qcow2 image, from its beginning to its end: clusters as they arrive, each table
// after its clusters, and the header last. It keeps one table in memory.
type qcow2Writer struct {
	file *os.File
	used int64 // clusters of the file; the first holds the header

	current int64 // index in l1 of the L2 table that is being filled
	l2      [perL2]uint64
	l1      []uint64
}

// Put implements Recipient.
func (q *qcow2Writer) Put(data []byte, at int64) error {
	for len(data) > 0 {
		in := at % clusterSize
		n := min(int64(len(data)), clusterSize-in)
		host, err := q.clusterFor(at / clusterSize)
		if err != nil {
			return err
		}
		if _, err := q.file.WriteAt(data[:n], host+in); err != nil {
			return err
		}
		data, at = data[n:], at+n
	}
	return nil
}

// clusterFor returns the offset in the file of a cluster of the disk.
func (q *qcow2Writer) clusterFor(guest int64) (int64, error) {
	if table := guest / perL2; table != q.current {
		if err := q.flushTable(); err != nil {
			return 0, err
		}
		q.current = table
	}
	entry := &q.l2[guest%perL2]
	if *entry == 0 {
		*entry = uint64(q.allocateClusters(1)) | copied
	}
	return int64(*entry &^ copied), nil
}

// allocateClusters returns the offset of the next clusters of the file.
func (q *qcow2Writer) allocateClusters(n int64) int64 {
	q.used = max(q.used, 1)
	at := q.used
	q.used += n
	return at * clusterSize
}

// flushTable writes the L2 table, unless it is empty.
func (q *qcow2Writer) flushTable() error {
	if q.l2 == [perL2]uint64{} {
		return nil
	}
	at := q.allocateClusters(1)
	if err := q.writeNumbers(q.l2[:], at); err != nil {
		return err
	}
	q.l1 = append(q.l1, make([]uint64, q.current+1-int64(len(q.l1)))...)
	q.l1[q.current], q.l2 = uint64(at)|copied, [perL2]uint64{}
	return nil
}

func (q *qcow2Writer) writeNumbers(numbers []uint64, at int64) error {
	out, err := binary.Append(nil, binary.BigEndian, numbers)
	if err != nil {
		return err
	}
	_, err = q.file.WriteAt(out, at)
	return err
}

// End implements Recipient.
func (q *qcow2Writer) End(size int64) error {
	if err := q.flushTable(); err != nil {
		return err
	}
	size = roundUp(size)
	tables := divideUp(size, clusterSize*perL2)
	q.l1 = append(q.l1, make([]uint64, tables-int64(len(q.l1)))...)
	l1 := q.allocateClusters(divideUp(8*tables, clusterSize))
	if err := q.writeNumbers(q.l1, l1); err != nil {
		return err
	}
	counts, clusters, err := q.writeRefcounts()
	if err != nil {
		return err
	}
	header := make([]byte, headerSize)
	copy(header, "QFI\xfb")
	for at, n := range map[int]uint32{
		4: 3, 20: clusterBits, 36: uint32(tables), 56: uint32(clusters), 96: 4, 100: headerSize,
	} {
		binary.BigEndian.PutUint32(header[at:], n)
	}
	for at, n := range map[int]int64{24: size, 40: l1, 48: counts} {
		binary.BigEndian.PutUint64(header[at:], uint64(n))
	}
	if _, err := q.file.WriteAt(header, 0); err != nil {
		return err
	}
	return q.file.Truncate(q.used * clusterSize)
}

// writeRefcounts records that each cluster is used once, including the clusters with these counts. It returns the
// offset of their table and its length in clusters.
func (q *qcow2Writer) writeRefcounts() (table, clusters int64, err error) {
	blocks := int64(0)
	for have := int64(-1); have != blocks; {
		have, clusters = blocks, divideUp(8*max(blocks, 1), clusterSize)
		blocks = divideUp(q.used+blocks+clusters, perRefcount)
	}
	table = q.allocateClusters(clusters)
	at := make([]uint64, blocks)
	first := q.allocateClusters(blocks)
	for i := range at {
		at[i] = uint64(first) + uint64(i)*clusterSize
		ones := make([]byte, 2*min(perRefcount, q.used-int64(i)*perRefcount))
		for k := 1; k < len(ones); k += 2 {
			ones[k] = 1
		}
		if _, err := q.file.WriteAt(ones, int64(at[i])); err != nil {
			return 0, 0, err
		}
	}
	return table, clusters, q.writeNumbers(at, table)
}

func divideUp(n, by int64) int64 { return (n + by - 1) / by }
