/** How to run intake-sync from now on, with the paths of this machine. docs/deploy has the hardened versions. */
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isJson } from './settings-json.ts'

export const DEPLOYMENTS = {
  cron: 'a nightly backfill from cron',
  systemd: 'serve as a systemd unit',
  compose: 'serve with Docker Compose',
} as const

export type Deployment = keyof typeof DEPLOYMENTS

const MOUNTED = '/run/intake-sync.json'
const CLI = fileURLToPath(new URL('../../cli.js', import.meta.url))
const PACKAGE = dirname(dirname(CLI))

/** `folder` is that of this program. */
export function deployText(kind: Deployment, settingsFile: string, folder = PACKAGE): string {
  return { cron, systemd, compose }[kind](settingsFile, folder)
}

/** A per cent sign ends the command in a crontab. */
function cron(file: string): string {
  const escaped = (path: string) => quoted(path).replaceAll('%', '\\%')
  const command = `${escaped(process.execPath)} ${escaped(CLI)} backfill`
  return `# crontab -e\n0 2 * * *  INTAKE_ENV_FILE=${escaped(file)} ${command}\n`
}

function systemd(file: string): string {
  const escaped = (path: string) => path.replaceAll('%', '%%')
  const word = (path: string) => (/^[\w./:@+-]+$/.test(path) ? path : `"${escaped(path)}"`)
  return `# /etc/systemd/system/intake-sync.service
[Unit]
Description=intake-sync: receives webhooks, and backfills every night
Wants=network-online.target
After=network-online.target

[Service]
ExecStart=${word(process.execPath)} ${word(CLI)} serve
Environment=${word(`INTAKE_ENV_FILE=${file}`)}
WorkingDirectory=${escaped(dirname(file))}
Restart=on-failure
RestartPreventExitStatus=2
UMask=0077
NoNewPrivileges=yes
LimitCORE=0

[Install]
WantedBy=multi-user.target
`
}

/** Only a checkout has what the image is built from. */
function compose(file: string, folder: string): string {
  const image = existsSync(join(folder, 'Dockerfile'))
    ? `build: ${JSON.stringify(folder)}`
    : 'image: intake-sync # made in a checkout of intake-sync: docker build -t intake-sync .'
  // Docker reads lines; JSON is mounted, for a user who may read it.
  const settings = isJson(file)
    ? `    user: "${process.getuid?.() ?? 0}:${process.getgid?.() ?? 0}"
    volumes: [${JSON.stringify(`${file}:${MOUNTED}:ro`)}]
    environment:
      INTAKE_ENV_FILE: ${MOUNTED}`
    : `    env_file: ${JSON.stringify(file)}\n    environment:`
  return `# docker-compose.yml
services:
  intake-sync:
    ${image}
    command: serve
    restart: on-failure
${settings}
      INTAKE_WEBHOOK_HOST: "0.0.0.0"
    ports: ["127.0.0.1:8080:8080"]
`
}

/** For a POSIX shell. */
export function quoted(text: string): string {
  return /^[\w./:@%+-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}
