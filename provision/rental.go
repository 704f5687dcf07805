package provision

import (
	"regexp"
	"slices"
	"time"
)

// Rent is how a host is bought for a time, as a rent block says it.
type Rent struct {
	Plugin   string            // NAME of the program hcl-rent-NAME, which speaks to the provider
	TTL      time.Duration     // from when it is asked for to its hard end, which nobody renews
	MaxPrice float64           // USD an hour, of this host
	Keep     time.Duration     // how long it stays for the next run when no trial needs it any more; 0: not
	Boot     time.Duration     // how long it may take until it lets us in; 0: [BootTime]
	Spec     map[string]string // what the provider is asked for; its plugin says what it understands
	Env      []EnvVar          // of the plugin, beside the PATH and HOME of hcl
}

var pluginName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,40}$`)

// IsPlugin reports whether a text may be the NAME of a program hcl-rent-NAME, which is also a directory's.
func IsPlugin(name string) bool { return pluginName.MatchString(name) }

// MostMoney is what the host can cost until its hard end, in USD.
func (r *Rent) MostMoney() float64 { return r.MaxPrice * r.TTL.Hours() }

// SameAccount reports whether two hosts are bought by the same program with the same environment, so that what one has rented the other
// can give back.
func (r *Rent) SameAccount(o *Rent) bool {
	return r.Plugin == o.Plugin && slices.EqualFunc(r.Env, o.Env, func(a, b EnvVar) bool {
		return a.Name == b.Name && a.Value.Reveal() == b.Value.Reveal()
	})
}

// BootLimit is how long a box may take until it lets us in.
func (r *Rent) BootLimit() time.Duration {
	if r.Boot > 0 {
		return r.Boot
	}
	return BootTime
}

// BootTime is how long a rented box may take until it lets us in: large machines test their memory first.
const BootTime = 30 * time.Minute
