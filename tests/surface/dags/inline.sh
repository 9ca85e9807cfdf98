#!/usr/bin/env bash
files=(a b)
echo "{\"files\": ${#files[@]}}" > "$DISPATCH_RESULT"
