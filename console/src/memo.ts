import { Component, h, type ComponentType, type VNode } from 'preact';

/** Renders a component again only if a property has changed. */
export function memo<P extends object>(of: (props: P) => VNode): ComponentType<P> {
  return class extends Component<P> {
    override shouldComponentUpdate(next: Readonly<P>) {
      const a = this.props as Record<string, unknown>;
      const b = next as Record<string, unknown>;
      return Object.keys(b).some((k) => a[k] !== b[k]) || Object.keys(a).some((k) => !(k in b));
    }
    override render() {
      return h(of as never, this.props);
    }
  };
}
