# Makes a file of stdin: $1 its folder, $2 its path, $3 that until it is whole, $4 its mode, $5 its size.
# When stdin ends early, as it does with its sender, nothing is left.
export LC_ALL=C
trap : HUP INT TERM # the parts below end of it, and what they have left is removed
exec 3<&0           # what runs in the background has no stdin
said=$(
	trap 'rm -f "$3"' HUP INT TERM # at once: KILL follows where the disk lets nothing below end
	{
		mkdir -p "$1" && umask 077 && set -C && cat <&3 >"$3" || exit
		came=$(($(wc -c <"$3")))
		test $came = "$5" || { echo "$came of $5 bytes have come"; exit 1; }
		chmod "$4" "$3" && sync "$3" && mv -f -T "$3" "$2"
	} 2>&1 &
	wait $!
) && exit
rm -f "$3"
echo "$said" >&2
case $said in *"No space left"*)
	at=$1
	until test -d "$at"; do at=$(dirname "$at"); done
	df -Pi "$at" | awk -v at="$at" 'NR == 2 && $2 > 0 && $4 == 0 { print "the disk with " at " is full: it takes no more files" }'
	df -Pk "$at" | awk -v at="$at" -v want="$5" 'NR == 2 && $4 * 1024 < want { print "the disk with " at " is full: it has " $4 " kB free, of " int((want + 1023) / 1024) " kB that are needed" }'
esac >&2
exit 1
