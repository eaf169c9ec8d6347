package decide

import "vmop/manager/vm/objects"

// Claims returns the claims that a VM needs, or nil if its definition describes an invalid claim.
func Claims(s *Snapshot) (claims []objects.Claim, did Report) {
	claims, err := objects.Claims(s.VM, s.Settings, objects.Existing{
		Claims: s.Claims, Records: s.ClaimRecords, Made: s.MadeClaims, Source: s.Source,
	})
	if err != nil {
		did.Stop(Stalled{ReasonRefused, Readable(err.Error())}, nil)
	}
	return claims, did
}
