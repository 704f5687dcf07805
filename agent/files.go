package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"hclbench/plain"
	"hclbench/provision/reach"
)

// Place brings a file or a folder of the caller to a host, where it is kept under
// its SHA-256 and so travels once, and returns where it lies there.
func Place(ctx context.Context, c *reach.Conn, local string) (remote string, err error) {
	files, sum, err := inventory(local)
	if err != nil {
		return "", err
	}
	remote = path.Join(c.Home(), root, "files", sum)
	out, err := c.Run(ctx, fmt.Sprintf("if test -e %[1]s; then touch %[1]s; echo there; fi", plain.Quote(remote)), nil)
	if err != nil || strings.TrimSpace(out) == "there" {
		return remote, err
	}
	// A folder is whole only under its final name.
	part := remote + ".part"
	for _, f := range files {
		to := path.Join(part, filepath.ToSlash(f))
		if _, err := c.Run(ctx, "mkdir -p -m 700 "+plain.Quote(path.Dir(to)), nil); err != nil {
			return "", err
		}
		if err := c.Upload(ctx, filepath.Join(local, f), to, 0o600); err != nil {
			return "", fmt.Errorf("bring %s to %s: %w", filepath.Join(local, f), c.Host(), err)
		}
	}
	// Another caller may have been quicker.
	_, err = c.Run(ctx, fmt.Sprintf("if test -e %[2]s; then rm -r %[1]s; else mv %[1]s %[2]s; fi", plain.Quote(part), plain.Quote(remote)), nil)
	return remote, err
}

// inventory lists the regular files of a folder, relative to it, or is the one
// file "." itself, with a sum over names and contents. Links are what they lead to, as
// for whoever reads the files here.
func inventory(local string) (files []string, sum string, err error) {
	h := sha256.New()
	root, err := filepath.EvalSymlinks(local)
	if err != nil {
		return nil, "", fmt.Errorf("read %s: %w", local, err)
	}
	err = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		st, err := os.Stat(p)
		if err != nil {
			return err
		}
		if d.Type()&fs.ModeSymlink != 0 && st.IsDir() && !strings.HasPrefix(d.Name(), ".") {
			return fmt.Errorf("%s is a link to a folder, which is not followed: name that folder itself", p)
		}
		if !st.Mode().IsRegular() {
			return nil
		}
		content, err := SHA(p)
		if err != nil {
			return err
		}
		fmt.Fprintf(h, "%q %s\n", rel, content)
		files = append(files, rel)
		return nil
	})
	if err == nil && len(files) == 0 {
		err = errors.New("there is no file")
	}
	if err != nil {
		return nil, "", fmt.Errorf("read %s: %w", local, err)
	}
	return files, hex.EncodeToString(h.Sum(nil)), nil
}
