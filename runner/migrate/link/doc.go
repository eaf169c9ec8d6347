// Package link connects the two runners of a migration. It uses TLS 1.3 with certificates on both sides, which
// are created for this migration only.
//
//	target, source, err := link.NewKeys("192.0.2.7:7444", time.Now())
//	l, err := link.Listen(ctx, target, log)    // at the target; Accepted has its connections
//	c, err := link.Dial(ctx, source, "")       // at the source: for messages of runner/migrate
//	s, err := link.Dial(ctx, source, "memory") // for the bytes of a QEMU, see Carry
//
// All connections use one port. The first line of a connection states its purpose.
package link
