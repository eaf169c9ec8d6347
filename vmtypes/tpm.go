package vmtypes

import (
	"path"
	"slices"

	"vmop/vmtypes/plan"
)

// separateTPM moves a swtpm that works in the data directory to its own folder there. swtpm replaces its state with a
// new file, so it needs write access to its whole working folder. This works for all types, including pinned types.
func (h Host) separateTPM(p *plan.Plan) {
	for i := range p.Helpers {
		q := &p.Helpers[i]
		if q.Role == plan.RoleTPM && path.Clean(q.Dir) == h.DataDir && slices.ContainsFunc(q.Args, isStateHere) {
			q.Dir = path.Join(h.DataDir, plan.TPMFolder)
		}
	}
}

// isStateHere reports whether an option makes swtpm store its state in its working directory.
func isStateHere(o plan.Option) bool {
	dir, _ := o.Get("dir")
	return o.Flag == "--tpmstate" && dir == "."
}
