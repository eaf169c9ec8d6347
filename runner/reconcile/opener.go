package reconcile

import (
	"os"
	"reflect"
	"slices"
	"time"

	"vmop/qmp"
)

// opener has files of disks opened, which may take long.
type opener struct {
	asked   []Drive // that were not asked for by a Step yet
	waiting []openInquiry
}

type openInquiry struct {
	drive Drive
	then  func(file *os.File, err error, now time.Time) bool
}

// query has the file of a disk opened. then reports whether it has sent the file.
func (o *opener) query(d Drive, then func(file *os.File, err error, now time.Time) bool) {
	o.asked = append(o.asked, d)
	o.waiting = append(o.waiting, openInquiry{d, then})
}

func (o *opener) drain() []Drive {
	asked := o.asked
	o.asked = nil
	return asked
}

func (o *opener) opened(d Drive, file *os.File, err error, now time.Time) bool {
	i := slices.IndexFunc(o.waiting, func(q openInquiry) bool { return reflect.DeepEqual(q.drive, d) })
	if i < 0 {
		return false // an earlier connection with QEMU has asked
	}
	then := o.waiting[i].then
	o.waiting = slices.Delete(o.waiting, i, i+1)
	return then(file, err, now)
}

// commandOf returns a command with its arguments; nil for none.
func commandOf(name string, arguments any) qmp.Command {
	return qmp.Command{Execute: name, Arguments: arguments}
}
