// Package login identifies the sender of each request. It logs users in and out, keeps their sessions, and
// reviews the tokens of programs. Package manager/access decides what they may do.
//
//	POST name and password ──▶ LogIn ─────────────┐
//	GET  begin an OIDC log-in ──▶ Begin ──▶ provider
//	GET  redirected from there ──▶ Callback ──────┤──▶ Session, SetCookie
//	GET  one-time link of this computer ─▶ Redeem ┘
//	any request ──▶ Middleware: cookie, or bearer token ──▶ Session in the context
//
// Package manager/web contains the pages and redirects. The only texts for users here are errors.
//
// # Log-in
//
// A local user has a bcrypt hash (users.go). Failed attempts cause delays by user and address (limiter.go). Only
// a few hashes are computed at a time, and an unknown name takes as much work as a wrong password (password.go).
//
// OpenID Connect uses the code flow with PKCE, state and nonce (oidc.go). The service checks the token's
// signature, issuer, audience and time. Roles come from a claim and from the configuration (roles.go).
//
// # Sessions
//
// The session is stored in the cookie, encrypted with a key that all managers of a namespace share. So each
// manager can answer each request (sealed.go, session.go). A manager remembers only when a session was last used,
// and who waits for its end: [Session.Done] is closed on log-out, on expiry, and when the user is removed from
// the configuration. A Secret shares log-outs between managers (secret.go). See docs/decisions/0062-sessions.md.
//
// Each log-in, refusal and log-out writes one line to the log, without passwords, tokens or cookies.
// [Service.Figures] counts them.
package login
