package vmtypes

import (
	"path"
	"slices"

	"vmop/vmtypes/plan"
)

// separateTPM gives a swtpm that works in the data directory a folder of its own there:
// it must be able to write all of the folder in which it works, since it replaces its
// state by a new file. Types needn't know of it, kept ones included.
func (h Host) separateTPM(p *plan.Plan) {
	for i := range p.Helpers {
		q := &p.Helpers[i]
		if q.Role == plan.RoleTPM && path.Clean(q.Dir) == h.DataDir && slices.ContainsFunc(q.Args, isStateHere) {
			q.Dir = path.Join(h.DataDir, plan.TPMFolder)
		}
	}
}

// isStateHere reports whether an option has swtpm keep its state where it works.
func isStateHere(o plan.Option) bool {
	dir, _ := o.Get("dir")
	return o.Flag == "--tpmstate" && dir == "."
}
