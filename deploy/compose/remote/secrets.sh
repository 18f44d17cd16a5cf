#!/usr/bin/env bash
# A self-signed certificate for the name `sidecar` and a random token, in ./secrets or in the folder given. For trying
# the set out: the files are readable by the containers' users, and so by every user of this machine.
set -euo pipefail
target=${1:-$(dirname "$0")/secrets}
mkdir -p "$target"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=sidecar \
  -addext subjectAltName=DNS:sidecar -keyout "$target/tls.key" -out "$target/tls.crt" 2>/dev/null
openssl rand -hex 32 >"$target/token"
chmod 644 "$target"/{tls.key,tls.crt,token}
