# Installs forge on Windows: fetches the archive of a release, checks its SHA-256, and copies the binary.
#
#   FORGE_RELEASES  where the releases are
#   FORGE_VERSION   the version, such as 0.1.0
#   FORGE_BIN       where the binary goes [default: %LOCALAPPDATA%\forge]
$ErrorActionPreference = 'Stop'

function Fail($what) { Write-Error "error: $what"; exit 1 }

if (-not $env:FORGE_RELEASES) { Fail 'set FORGE_RELEASES to the address of the releases' }
if (-not $env:FORGE_VERSION) { Fail 'set FORGE_VERSION to a version, such as 0.1.0' }
$bin = if ($env:FORGE_BIN) { $env:FORGE_BIN } else { Join-Path $env:LOCALAPPDATA 'forge' }
$name = "forge-$($env:FORGE_VERSION)-x86_64-pc-windows-msvc"
$from = "$($env:FORGE_RELEASES)/v$($env:FORGE_VERSION)/$name.zip"
$folder = Join-Path ([IO.Path]::GetTempPath()) ([Guid]::NewGuid())
New-Item -ItemType Directory -Path $folder | Out-Null
try {
    Invoke-WebRequest -UseBasicParsing -Uri $from -OutFile "$folder\$name.zip"
    Invoke-WebRequest -UseBasicParsing -Uri "$from.sha256" -OutFile "$folder\$name.zip.sha256"
    $expected = (Get-Content "$folder\$name.zip.sha256").Split(' ')[0]
    $actual = (Get-FileHash -Algorithm SHA256 "$folder\$name.zip").Hash.ToLowerInvariant()
    if ($expected -ne $actual) { Fail 'the archive does not match its checksum: nothing was installed' }
    Expand-Archive -Path "$folder\$name.zip" -DestinationPath $folder
    New-Item -ItemType Directory -Force -Path $bin | Out-Null
    Copy-Item -Force "$folder\$name\forge.exe" "$bin\forge.exe"
} finally {
    Remove-Item -Recurse -Force $folder
}
Write-Output "installed $(& "$bin\forge.exe" --version) as $bin\forge.exe"
