package reconcile

import (
	"os"
	"reflect"
	"slices"
	"time"

	"vmop/qmp"
)

// opener requests the opening of disk files, which may take long.
type opener struct {
	asked   []Drive // not in a Step yet
	waiting []openInquiry
}

type openInquiry struct {
	drive Drive
	then  func(file *os.File, err error, now time.Time) bool
}

// queryFile requests the opening of a disk's file. then reports whether it has sent the file.
func (o *opener) queryFile(d Drive, then func(file *os.File, err error, now time.Time) bool) {
	o.asked = append(o.asked, d)
	o.waiting = append(o.waiting, openInquiry{d, then})
}

func (o *opener) drainWishes() []Drive {
	asked := o.asked
	o.asked = nil
	return asked
}

func (o *opener) noteOpened(d Drive, file *os.File, err error, now time.Time) bool {
	i := slices.IndexFunc(o.waiting, func(q openInquiry) bool { return reflect.DeepEqual(q.drive, d) })
	if i < 0 {
		return false // the question is from an earlier connection to QEMU
	}
	then := o.waiting[i].then
	o.waiting = slices.Delete(o.waiting, i, i+1)
	return then(file, err, now)
}

// commandOf returns a command with arguments; nil means no arguments.
func commandOf(name string, arguments any) qmp.Command {
	return qmp.Command{Execute: name, Arguments: arguments}
}
