"""Agent frameworks on the event logs of Nimbus: nimbus_adapters.adk, nimbus_adapters.langgraph."""
