/**
 * Three hosts on one machine: network namespaces, joined by a bridge.
 *
 *     host 1 ──veth──┐
 *     host 2 ──veth──┼── bridge 10.77.0.1: Postgres, the service, the balancer
 *     host 3 ──veth──┘
 *
 * Invariant: all of it is inside a namespace of its own (network, mounts, processes), which the kernel removes, with every
 * process in it, when the program ends that was started by `inside`. Nothing listens outside.
 */
import { type ChildProcess, execFileSync, type SpawnOptions, spawn } from 'node:child_process'

/** Everything inside ends with the program itself, however that ends. */
const OWN = ['--net', '--mount', '--pid', '--fork', '--kill-child', '--mount-proc']
/** `ip netns` keeps its names in /run, which is ours alone. The shell stays, as the first process, and collects orphans. */
const SETTLE = 'mount -t tmpfs tmpfs /run && ip link set lo up && "$@"; exit $?'
export const BRIDGE = '10.77.0.1'
export const HOSTS = ['host1', 'host2', 'host3'] as const
export type HostName = (typeof HOSTS)[number]

export const addressOf = (host: HostName) => `10.77.0.1${host.at(-1)}`

/** Why no hosts can be made here; null if they can. */
export function whyNotHere(): string | null {
  for (const program of ['unshare', 'ip', 'nft']) {
    try {
      execFileSync('which', [program], { stdio: 'ignore' })
    } catch {
      return `${program} is not installed (packages util-linux, iproute2, nftables)`
    }
  }
  const attempt = `${SETTLE_ONCE} ip netns add probe && ip link add br0 type bridge
    ip link add one type veth peer name other && ip link set other netns probe
    ip netns exec probe nft add table inet loss
    ip netns exec probe nft 'add chain inet loss in { type filter hook input priority 0; }'
    ip netns exec probe nft 'add rule inet loss in numgen random mod 100 < 20 drop'`
  try {
    execFileSync('unshare', [...OWN, 'sh', '-ec', attempt], { stdio: 'ignore' })
    return null
  } catch {
    return 'network namespaces, or nftables in them, are not permitted here'
  }
}

const SETTLE_ONCE = 'mount -t tmpfs tmpfs /run; ip link set lo up;'

/** Starts a program in a namespace of its own. SIGKILL ends it and everything that it has started. */
export function inside(words: readonly string[], options: SpawnOptions): ChildProcess {
  return spawn('unshare', [...OWN, 'sh', '-c', SETTLE, 'sh', ...words], options)
}

/** Inside: makes the bridge and the hosts. */
export function makeHosts(): void {
  run(['ip', 'link', 'add', 'bridge', 'type', 'bridge'])
  run(['ip', 'address', 'add', `${BRIDGE}/24`, 'dev', 'bridge'])
  run(['ip', 'link', 'set', 'bridge', 'up'])
  for (const host of HOSTS) {
    run(['ip', 'netns', 'add', host])
    run(['ip', 'link', 'add', host, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', host])
    run(['ip', 'link', 'set', host, 'master', 'bridge', 'up'])
    run([...on(host), 'ip', 'address', 'add', `${addressOf(host)}/24`, 'dev', 'eth0'])
    for (const link of ['lo', 'eth0']) run([...on(host), 'ip', 'link', 'set', link, 'up'])
    run([...on(host), 'nft', 'add', 'table', 'inet', 'loss'])
  }
}

/** Words that run what follows them on the host, as the same process. */
export const on = (host: HostName) => ['ip', 'netns', 'exec', host] as const

/** The cable between the host and the bridge. */
export function setLink(host: HostName, state: 'up' | 'down'): void {
  run(['ip', 'link', 'set', host, state])
}

/** Loses so many of a hundred packets in each direction; with 0, none. */
export function setLoss(host: HostName, percent: number): void {
  run([...on(host), 'nft', 'flush', 'ruleset'])
  if (percent === 0) return
  run([...on(host), 'nft', 'add', 'table', 'inet', 'loss'])
  for (const hook of ['input', 'output']) {
    run([...on(host), 'nft', `add chain inet loss ${hook} { type filter hook ${hook} priority 0; }`])
    run([
      ...on(host),
      'nft',
      `add rule inet loss ${hook} oifname != "lo" numgen random mod 100 < ${percent} drop`.replace(
        'oifname',
        hook === 'input' ? 'iifname' : 'oifname',
      ),
    ])
  }
}

function run([program, ...words]: readonly string[]): void {
  execFileSync(program!, words, { stdio: ['ignore', 'ignore', 'inherit'] })
}
