package policy

import "strings"

func nameSet(names string) map[string]bool {
	set := map[string]bool{}
	for _, n := range strings.Fields(names) {
		set[n] = true
	}
	return set
}

// What programs do with the files they are given, as far as the guard has to know.
var (
	readers = nameSet(`cat tac head tail less more bat grep egrep fgrep rg ag wc diff cmp comm file stat ls dir tree du
		md5sum sha1sum sha256sum sha512sum cksum uniq cut tr nl od hexdump strings jq basename dirname realpath readlink
		echo printf test [ [[ pwd true false : type which whereis paste column fold fmt rev seq sleep date exit return
		set unset shift wait kill jobs export local declare readonly typeset break continue`)
	writers = nameSet(`rm mv tee ln chmod chown chgrp touch truncate dd rmdir unlink shred mkdir mkfifo patch setfacl chattr
		split csplit srm trash gio`)
	removers = nameSet(`rm mv rmdir unlink shred srm trash`)
	copiers  = nameSet(`cp install rsync scp`)
)
