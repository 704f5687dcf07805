package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hclbench/testhost"
)

// tofuModule is a box that is there already: what makes it lets a key in, and what destroys it says so.
const tofuModule = `
variable "hcl" { type = object({ request = string, public_key = string }) }
variable "at" { type = string }
variable "key" { type = string }
variable "keys" { type = string }
variable "cloud" { type = string }
resource "terraform_data" "box" {
  input = "${var.cloud}/${var.hcl.request}"
  provisioner "local-exec" {
    command = <<-END
      touch ${self.input}.asked
      while [ -e ${var.cloud}/hold ]; do sleep 0.1; done
      echo '${var.hcl.public_key}' >> ${var.keys}
      mv ${self.input}.asked ${self.input}.lives
    END
  }
  provisioner "local-exec" {
    when    = destroy
    command = "mv ${self.input}.lives ${self.input}.gone"
  }
}
output "address" {
  value      = var.at
  depends_on = [terraform_data.box]
}
output "user" { value = "root" }
output "host_keys" { value = [var.key] }
`

// TestSlowRentedTofu: what a module of OpenTofu makes is measured on and destroyed, in one command; and where that was killed, while the
// box was made or at work, the next finds it and leaves nothing.
func TestSlowRentedTofu(t *testing.T) {
	t.Parallel()
	testhost.Plugin(t, "tofu")
	host, cloud := testhost.New(t, testhost.Options{Namespace: true}), t.TempDir()
	lab := strings.NewReplacer(`plugin    = "fake"`, `plugin    = "tofu"`, `env       = { PROVIDER_ACCOUNT = "%ACCOUNT%", PROVIDER_FAULTS = "%FAULTS%", PROVIDER_TOKEN = var.token }`, "",
		`{ size = "large" }`, `{
      module         = "../../../box"
      price_per_hour = "20"
      at             = "`+host.Addr+`"
      key            = "`+strings.TrimSpace(host.HostKeys[0])+`"
      keys           = "`+host.IdentityFile+`.pub"
      cloud          = "`+cloud+`"
    }`).Replace(rentLab)
	u := newLocal(t, lab)
	u.env = append(u.env, "PATH="+testhost.Tofu(t)+":"+os.Getenv("PATH"))
	must(t, os.Mkdir(filepath.Join(u.lab, "box"), 0o755))
	must(t, os.WriteFile(filepath.Join(u.lab, "box", "main.tf"), []byte(tofuModule), 0o644))
	count := func(pattern string) int {
		found, err := filepath.Glob(filepath.Join(cloud, pattern))
		must(t, err)
		return len(found)
	}
	want := func(lives, gone int) {
		t.Helper()
		if l, g := count("*.lives"), count("*.gone"); l != lives || g != gone {
			t.Errorf("%d boxes live and %d are gone, want %d and %d", l, g, lives, gone)
		}
	}

	u.tells("plan", exitDone, "rented of tofu for 1h00m at most", "$20.00 an hour: ../../../box", "what ends it: this machine gives it back\n")
	u.tells("apply", applied, "renting", "is gone; it has cost about $0.")
	want(0, 1)

	u.edit("requests = 8", "requests = 20000")
	killed := u.until("progress")
	must(t, killed.Process.Kill())
	killed.Wait()
	want(1, 1)
	must(t, os.Rename(filepath.Join(u.lab, "box"), filepath.Join(u.lab, "box-of-yesterday"))) // which has to be no matter
	u.edit("requests = 20000", "requests = 9")
	u.tells("apply", applied, "of an earlier run is there", "is gone; it has cost about $0.")
	want(0, 2)
	must(t, os.Rename(filepath.Join(u.lab, "box-of-yesterday"), filepath.Join(u.lab, "box")))

	must(t, os.WriteFile(filepath.Join(cloud, "hold"), nil, 0o600))
	u.edit("requests = 9", "requests = 10")
	killed, _ = u.start("apply", "--json")
	eventually(t, "a box is being made", 5*time.Minute, func() bool { return count("*.asked") == 1 })
	must(t, killed.Process.Kill())
	killed.Wait()
	must(t, os.Remove(filepath.Join(cloud, "hold")))
	u.tells("apply", applied, "is gone; it has cost about $0.") // the same box, or another one where it was not made yet
	if lives, gone, asked := count("*.lives"), count("*.gone"), count("*.asked"); lives+asked > 0 || gone < 3 || gone > 4 {
		t.Errorf("%d boxes live, %d are gone, %d were asked for", lives, gone, asked)
	}
	u.tells("destroy", exitDone, "Nothing of lab rented is on its hosts")
	left, err := filepath.Glob(filepath.Join(u.lab, ".hcl", "rent", "tofu", "*", "*"))
	must(t, err)
	for _, path := range left {
		if name := filepath.Base(path); name != "gone" && name != "lock" {
			t.Errorf("%s is left", path)
		}
	}
}
